// Declarations of the part of cuDNN's backend interface (cudnn_graph.h of version 9) that is
// called: a build needs no cuDNN. tests/cuda_runtime/cudnn_test.cc compares it with the header
// where there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace metronome::executor::libraries::cudnn {

using Status = int;  ///< cudnnStatus_t; 0: it worked
using Context = void*;
using Descriptor = void*;

/// cudnnBackendDescriptorType_t.
enum class Kind : int {
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  plan = 5,
  knob_choice = 7,
  forward = 10,
  backward_filter = 11,
  backward_data = 12,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  device_properties = 38,
};

/// cudnnBackendAttributeName_t.
enum class Attribute : int {
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  config_engine = 300,
  config_knobs = 302,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_device = 407,
  knob_type = 600,
  knob_value = 601,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_weight = 703,
  forward_x = 704,
  forward_y = 705,
  data_alpha = 706,
  data_beta = 707,
  data_convolution = 708,
  data_weight = 709,
  data_x = 710,
  data_y = 711,
  filter_alpha = 712,
  filter_beta = 713,
  filter_convolution = 714,
  filter_weight = 715,
  filter_x = 716,
  filter_y = 717,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_sizes = 902,
  tensor_strides = 903,
  tensor_id = 906,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_notes = 1303,
  engine_device = 1307,
  device_json = 2702,
};

/// cudnnBackendAttributeType_t.
enum class AttributeType : int {
  handle = 0,
  data_type = 1,
  int64 = 3,
  float32 = 4,
  float64 = 5,
  pointer = 6,
  convolution_mode = 7,
  heuristics_mode = 8,
  knob_type = 9,
  numerical_note = 11,
  descriptor = 15,
  text = 24,
};

/// cudnnBackendNumericalNote_t.
enum class NumericalNote : int {
  tensor_core = 0,
  down_convert_inputs = 1,
  reduced_precision_reduction = 2,
  fft = 3,
  nondeterministic = 4,
  winograd = 5,
  winograd_tile_4x4 = 6,
  winograd_tile_6x6 = 7,
  winograd_tile_13x13 = 8,
  strict_nan_propagation = 9,
};

inline constexpr int kFloat = 0, kDouble = 1;           ///< cudnnDataType_t
inline constexpr int kCrossCorrelation = 1;             ///< cudnnConvolutionMode_t
inline constexpr int kModeFallback = 2, kModeA = 3;     ///< cudnnBackendHeurMode_t
inline constexpr int kMostKnobs = 44, kMostNotes = 10;  ///< how many kinds there are

using GetVersion = std::size_t();
using GetErrorString = const char*(Status);
using GetLastErrorString = void(char* text, std::size_t size);
using Create = Status(Context*);
using Destroy = Status(Context);
using SetStream = Status(Context, cudaStream_t);
using CreateDescriptor = Status(int kind, Descriptor*);
using DestroyDescriptor = Status(Descriptor);
using Finalize = Status(Descriptor);
using SetAttribute = Status(Descriptor, int attribute, int as, std::int64_t count, const void*);
using GetAttribute = Status(Descriptor, int attribute, int as, std::int64_t room,
                            std::int64_t* count, void*);
using Execute = Status(Context, Descriptor plan, Descriptor pack);

}  // namespace metronome::executor::libraries::cudnn
