//! Stand-ins for the CUDA driver and for NVRTC.
