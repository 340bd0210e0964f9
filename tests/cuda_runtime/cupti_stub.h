// CUPTI's C interface in place of the library: what a test says was copied and ran is told as CUPTI
// tells it. It is a shared library of CUPTI's name, in which a test finds these functions.
#pragma once

#ifndef METRONOME_NO_CUDA
#if __has_include(<cupti.h>)
#define METRONOME_CUPTI 1
#include <cupti.h>

#include <cstddef>
#include <cstdint>

extern "C" {

/// A node was copied: the subscriber is told, if there is one who asked for it.
void stub_cupti_copied(CUgraphNode original, CUgraphNode copy);
/// Work of this kind ran for 1,000 ns, 250 behind the work before: a node's, or null, of a call.
void stub_cupti_ran(CUgraphNode node, CUpti_ActivityKind kind);
/// The function of this name fails from here on with an error; all work where that is 0.
void stub_cupti_fail(const char* function, CUptiResult error);
/// So many records are dropped at the next hand-over.
void stub_cupti_drop(std::size_t records);
/// Subscribers, and kinds of activities that are recorded.
int stub_cupti_busy();

}  // extern "C"

#endif
#endif
