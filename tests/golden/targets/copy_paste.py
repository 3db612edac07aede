"""Writes copy_paste.json: SimpleCopyPaste of torchvision's detection references, with the draws it made.

The function is `_copy_paste` of references/detection/transforms.py (BSD 3-Clause, Copyright (c) Soumith Chintala 2016 and
contributors) without its resize, for images of one size, and without blending.

    python copy_paste.py      torch 2.15.0, torchvision 0.29.2
"""

import json
from pathlib import Path

import torch
from torchvision import ops

HEIGHT, WIDTH = 12, 16


def copy_paste(image, target, paste_image, paste_target):
    num_masks = len(paste_target["masks"])
    if num_masks < 1:
        return image, target, []
    random_selection = torch.randint(0, num_masks, (num_masks,))
    random_selection = torch.unique(random_selection).to(torch.long)
    paste_masks = paste_target["masks"][random_selection]
    paste_boxes = paste_target["boxes"][random_selection]
    paste_labels = paste_target["labels"][random_selection]
    masks = target["masks"]
    paste_alpha_mask = paste_masks.sum(dim=0) > 0
    image = (image * (~paste_alpha_mask)) + (paste_image * paste_alpha_mask)
    masks = masks * (~paste_alpha_mask)
    non_all_zero_masks = masks.sum((-1, -2)) > 0
    masks = masks[non_all_zero_masks]
    out_target = dict(target)
    out_target["masks"] = torch.cat([masks, paste_masks])
    boxes = ops.masks_to_boxes(masks)
    out_target["boxes"] = torch.cat([boxes, paste_boxes])
    labels = target["labels"][non_all_zero_masks]
    out_target["labels"] = torch.cat([labels, paste_labels])
    return image, out_target, random_selection.tolist()


def scene(generator, count):
    image = torch.randint(0, 256, (1, HEIGHT, WIDTH), generator=generator, dtype=torch.uint8)
    masks = torch.zeros((count, HEIGHT, WIDTH), dtype=torch.uint8)
    for mask in masks:
        y, x = (int(torch.randint(0, side - 3, (), generator=generator)) for side in (HEIGHT, WIDTH))
        h, w = (int(torch.randint(2, 8, (), generator=generator)) for _ in range(2))
        mask[y : y + h, x : x + w] = 1
        mask[y, x] = 0
    boxes = ops.masks_to_boxes(masks) + torch.tensor([0, 0, 1, 1])
    return image, {"boxes": boxes, "masks": masks, "labels": torch.arange(count)}


def written(image, target):
    rows = ["".join(map(str, mask.flatten().tolist())) for mask in target["masks"]]
    return {
        "image": image.flatten().tolist(),
        "masks": rows,
        "boxes": target["boxes"].tolist(),
        "labels": target["labels"].tolist(),
    }


def main():
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(11)
    cases = []
    for own, other in [(2, 3), (4, 1), (3, 5), (1, 6), (0, 2)]:
        image, target = scene(generator, own)
        paste_image, paste_target = scene(generator, other)
        out_image, out_target, chosen = copy_paste(image, target, paste_image, paste_target)
        cases.append(
            {
                "own": written(image, target),
                "partner": written(paste_image, paste_target),
                "chosen": chosen,
                "own_left": len(out_target["boxes"]) - len(chosen),
                "out": written(out_image, out_target),
            }
        )
    text = json.dumps({"height": HEIGHT, "width": WIDTH, "cases": cases}, separators=(",", ":"))
    Path(__file__).with_name("copy_paste.json").write_text(text + "\n")


main()
