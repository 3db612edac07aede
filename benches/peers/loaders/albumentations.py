"""albumentations: OpenCV decodes, albumentations transforms, PyTorch's DataLoader has a process for each worker."""

from . import CIFAR_FILL, CIFAR_MEAN, CIFAR_STD, MEAN, STD, listed


def transforms(workload):
    """Returns the transforms of a decoded image; `grain.py` uses the same."""
    import albumentations as A

    first = {
        "W1": [A.RandomResizedCrop((224, 224)), A.HorizontalFlip()],
        "W2": [A.SmallestMaxSize(256), A.CenterCrop(224, 224)],
        "W3": [
            A.RandomResizedCrop((224, 224)),
            A.HorizontalFlip(),
            A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (0, 0), p=1),
        ],
        "W4": [
            A.HorizontalFlip(),
            A.Pad(4, fill=CIFAR_FILL),
            A.RandomCrop(32, 32),
            A.CoarseDropout((1, 1), (8, 8), (8, 8), fill=CIFAR_FILL, p=1),
        ],
        "W5": [A.RandomCrop(224, 224), A.HorizontalFlip()],
    }[workload]
    if workload == "W4":
        last = A.Normalize(CIFAR_MEAN, CIFAR_STD, max_pixel_value=1)
    else:
        last = A.Normalize(MEAN, STD)
    return A.Compose(first + [last])


class Pictures:
    """The files of a folder or the pictures of an array, by index."""

    def __init__(self, job):
        import numpy as np

        self.pixels = np.load(job.pixels) if job.pixels else None
        self.paths, self.labels = ([], []) if job.pixels else listed(job.photos)
        self.change = transforms(job.workload)

    def __len__(self):
        return len(self.paths) if self.pixels is None else len(self.pixels)

    def __getitem__(self, index):
        import cv2
        import numpy as np

        if self.pixels is None:
            image = cv2.imread(self.paths[index], cv2.IMREAD_COLOR_RGB)
            label = self.labels[index]
        else:
            image, label = self.pixels[index], index % 10
        image = self.change(image=image)["image"]
        return np.ascontiguousarray(image.transpose(2, 0, 1)), label


def open(job):
    import os

    # Otherwise albumentations asks a server for its newest version.
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import cv2
    from torch.utils.data import DataLoader

    # Each worker is a process; threads of OpenCV would compete with them.
    cv2.setNumThreads(0)
    data = Pictures(job)
    loader = DataLoader(
        data,
        job.batch,
        shuffle=True,
        num_workers=job.threads,
        persistent_workers=True,
        prefetch_factor=4,
    )
    return lambda epoch: loader
