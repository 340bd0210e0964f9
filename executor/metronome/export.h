// For programs that hand out what they trained.
#pragma once

#include "executor/export/export_library.h"  // export_library: a folder of C++ and a header for C
#include "executor/onnx/to_onnx.h"           // to_onnx: a file for other runtimes
