//! The device that everything is computed on, chosen once, when crosshash is built: the CPU, or
//! with the feature `gpu` the first GPU that wgpu finds (Vulkan, Metal, DirectX).

use burn_tensor::Device;

/// The device, without the recording of gradients.
pub(crate) fn device() -> Device {
    #[cfg(not(feature = "gpu"))]
    {
        Device::flex()
    }
    #[cfg(feature = "gpu")]
    {
        Device::wgpu(burn_tensor::DeviceKind::DefaultDevice)
    }
}

/// The device that records what gradients need.
pub(crate) fn learning() -> Device {
    device().autodiff()
}
