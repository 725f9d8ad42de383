//! The compute device, selected at build time: the CPU, or with the cargo feature `gpu` the first GPU
//! found by wgpu (Vulkan, Metal, DirectX).

use burn_tensor::Device;

/// The device without autodiff.
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

/// The device with autodiff.
pub(crate) fn learning() -> Device {
    device().autodiff()
}
