"""torchvision: PyTorch's DataLoader with a process for each worker, torchvision.io and transforms v2 on tensors.

torchvision.io decodes faster than Pillow, and workers stay from epoch to epoch. W4 is written with PyTorch's own
operations for whole batches, which is five times as fast as transforms of each picture.
"""

from . import CIFAR_FILL, CIFAR_MEAN, CIFAR_STD, MEAN, STD, listed


def transforms(workload):
    """Returns the transforms of a decoded image; `webdataset.py` uses the same."""
    import torch
    from torchvision.transforms import v2

    first = {
        "W1": [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()],
        "W2": [v2.Resize(256, antialias=True), v2.CenterCrop(224)],
        "W3": [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4),
        ],
        "W5": [v2.RandomCrop(224), v2.RandomHorizontalFlip()],
    }[workload]
    return v2.Compose(first + [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


class Photos:
    """The files of a folder, by index."""

    def __init__(self, folder, change):
        self.paths, self.labels = listed(folder)
        self.change = change

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file

        image = decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB)
        return self.change(image), self.labels[index]


class Pixels:
    """The pictures of an array, by index."""

    def __init__(self, path, change):
        import numpy as np

        self.pixels = np.load(path)
        self.change = change

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        import torch

        return self.change(torch.from_numpy(self.pixels[index]).permute(2, 0, 1)), index % 10


class SmallBatches:
    """W4 for a list of indices at a time: a flip, a translation and a hole of its own for each picture."""

    def __init__(self, path):
        import numpy as np
        import torch

        pixels = torch.from_numpy(np.load(path))
        self.count = len(pixels)
        self.padded = torch.tensor(CIFAR_FILL, dtype=torch.uint8).repeat(self.count, 40, 40, 1)
        self.padded[:, 4:36, 4:36] = pixels
        self.mean = torch.tensor(CIFAR_MEAN).view(3, 1, 1)
        self.scale = 1 / torch.tensor(CIFAR_STD).view(3, 1, 1)
        self.fill = (torch.tensor(CIFAR_FILL).view(3, 1, 1) - self.mean) * self.scale

    def __len__(self):
        return self.count

    def __getitem__(self, indices):
        import torch

        picked = torch.tensor(indices)
        count, line = len(picked), torch.arange(32)
        columns = line + torch.randint(0, 9, (count, 1))
        flipped = torch.rand(count, 1) < 0.5
        columns = torch.where(flipped, columns.flip(1), columns)
        rows = line + torch.randint(0, 9, (count, 1))
        images = self.padded[picked[:, None, None], rows[:, :, None], columns[:, None, :]]
        images = (images.permute(0, 3, 1, 2).contiguous().float() - self.mean).mul_(self.scale)
        first = torch.randint(0, 25, (2, count, 1))
        inside = (line >= first) & (line < first + 8)
        hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return torch.where(hole, self.fill, images), picked % 10


def open(job):
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    workers = {"num_workers": job.threads, "persistent_workers": True, "prefetch_factor": 4}
    if job.workload == "W4":
        data = SmallBatches(job.pixels)
        sampler = BatchSampler(RandomSampler(data), job.batch, drop_last=False)
        loader = DataLoader(data, sampler=sampler, batch_size=None, **workers)
    else:
        change = transforms(job.workload)
        data = Pixels(job.pixels, change) if job.pixels else Photos(job.photos, change)
        loader = DataLoader(data, job.batch, shuffle=True, **workers)
    return lambda epoch: loader
