//! Tensors as arrays of the `ndarray` crate, without copies.

use ndarray::ArrayViewD;

use super::{Element, SharedTensor, TensorView};

impl<'a, T: Element> From<TensorView<'a, T>> for ArrayViewD<'a, T> {
    /// Returns the tensor as an array of the same shape, in standard layout.
    fn from(tensor: TensorView<'a, T>) -> Self {
        ArrayViewD::from_shape(tensor.shape, tensor.elements)
            .expect("a tensor has as many elements as its shape says")
    }
}

impl<'a, T: Element> From<&'a SharedTensor<T>> for ArrayViewD<'a, T> {
    /// Returns the tensor as an array of the same shape, in standard layout.
    fn from(tensor: &'a SharedTensor<T>) -> Self {
        tensor.view().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{filled, pool};

    #[test]
    fn a_tensor_is_an_array_without_a_copy() {
        let pool = pool(4);
        let batch = filled(&pool, &[5, 9]);
        let image = batch.tensor::<f32>("image").unwrap();
        let array = ArrayViewD::from(image.clone());
        assert_eq!(array.shape(), [2, 2, 3]);
        assert_eq!(array[[1, 0, 2]], 56.0);
        assert_eq!(array.as_ptr(), image.as_slice().as_ptr());
        let shared = batch.share::<i64>("label").unwrap();
        assert_eq!(ArrayViewD::from(&shared), ndarray::arr1(&[5, 9]).into_dyn());
    }
}
