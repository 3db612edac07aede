"""The peers: one module each, with a function `open(job)`.

It returns a function that takes the number of an epoch and returns that epoch's batches. A batch is a tuple whose
first item are the images: f32, normalized, `[batch, 3, height, width]`, or `[batch, height, width, 3]` where the
library's own layout is channels last.
"""

import os

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# The mean and deviation of CIFAR-10 in levels, and the fill colour of FFCV's example.
CIFAR_MEAN = (125.307, 122.961, 113.8575)
CIFAR_STD = (51.5865, 50.847, 51.255)
CIFAR_FILL = (125, 122, 113)


def levels(values):
    """Returns constants for pixels of 0 to 255."""
    return [255 * value for value in values]

def listed(folder):
    """Returns the paths below a folder with one folder for each class, and their labels."""
    paths, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            paths.append(os.path.join(folder, name, file))
            labels.append(label)
    return paths, labels
