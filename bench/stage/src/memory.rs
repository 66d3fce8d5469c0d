//! Memory that is free in this process, but not yet given back to the system.

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "it takes a number, and is safe to call at any time")]
mod c {
    unsafe extern "C" {
        /// Gives back what is free above `pad` bytes, of all arenas of glibc's allocator.
        pub(super) safe fn malloc_trim(pad: usize) -> i32;
    }
}

/// Gives it back, where the allocator can. Go has `debug.FreeOSMemory` for this.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    c::malloc_trim(0);
}
