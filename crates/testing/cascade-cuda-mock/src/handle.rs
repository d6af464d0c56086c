//! What programs know an object of the driver by.

/// Stands for an object of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) usize);

impl Handle {
    pub(crate) fn of<T>(pointer: *mut T) -> Self {
        Self(pointer as usize)
    }

    pub(crate) fn pointer<T>(self) -> *mut T {
        self.0 as *mut T
    }
}
