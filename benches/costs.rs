//! The allocations of requests and locks, and the cost of the layer for a request. Run by
//! `scripts/bench`. A separate program, as every allocation is counted here.

use std::alloc::{GlobalAlloc, Layout, System};

use tower_redlock_benches::Counter;

static COUNTER: Counter = Counter::new();

struct Counting;

// SAFETY: delegates to the system's allocator with unchanged arguments.
#[expect(unsafe_code, reason = "only the allocator sees all allocations")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNTER.allocated(size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    tower_redlock_benches::costs(&COUNTER);
}
