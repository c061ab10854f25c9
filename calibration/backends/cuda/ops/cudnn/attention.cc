// Attention as the graph of products, softmax and masks that cuDNN's fused engines know by
// its form (a fact from NVIDIA/cudnn-frontend, see THIRD_PARTY.md); its gradients likewise
// (FlashAttention-2, Dao 2023: probabilities are computed again from the saved statistics).
#include <cmath>
#include <limits>

#include "calibration/backends/cuda/ops/cudnn/cached_keys.h"
#include "calibration/backends/cuda/ops/cudnn/graph.h"

namespace gpueta::cudnn {
namespace {

using Tensor = Graph::Tensor;

// Adds operations to a graph; intermediate results are in fp32 and of no memory.
class Builder {
 public:
  Builder(Graph& graph, const Attention& attention, cudnnDataType_t type)
      : graph_(graph),
        type_(type),
        b_(attention.batch),
        h_(attention.heads),
        kv_h_(attention.kv_heads),
        q_(attention.query_len),
        kv_(attention.kv_len),
        d_(attention.head_dim) {}

  // Batch, heads, rows and head_dim, stored by batch, row, head: as projections leave them.
  Dims Rows(std::int64_t heads, std::int64_t rows) const {
    return {.sizes = {b_, heads, rows, d_}, .strides = {rows * heads * d_, d_, heads * d_, 1}};
  }
  Dims Queries() const { return Rows(h_, q_); }
  Dims Keys() const { return Rows(kv_h_, kv_); }
  Dims Scores() const { return Contiguous({b_, h_, q_, kv_}); }
  Dims PerRow() const { return Contiguous({b_, h_, q_, 1}); }
  // Rows and columns exchanged, in the same memory.
  static Dims Transposed(Dims dims) {
    std::swap(dims.sizes[2], dims.sizes[3]);
    std::swap(dims.strides[2], dims.strides[3]);
    return dims;
  }

  absl::StatusOr<Tensor> Virtual(const Dims& dims) { return graph_.AddVirtual(dims, CUDNN_DATA_FLOAT); }

  absl::Status Product(Tensor a, Tensor b, Tensor c) {
    GPUETA_ASSIGN_OR_RETURN(const Descriptor* product, graph_.Add(CUDNN_BACKEND_MATMUL_DESCRIPTOR, [](Descriptor& d) {
      return d.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    }));
    return graph_.AddOperation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a));
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b));
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c));
      return d.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, *product);
    });
  }

  // y of x, of x and b, or of x, b and t (where t, x, else b).
  struct Pointwise {
    cudnnPointwiseMode_t mode;
    Tensor x = nullptr;
    Tensor b = nullptr;
    Tensor t = nullptr;
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    std::optional<std::int64_t> axis = std::nullopt;  // of an index
  };
  absl::Status Apply(const Pointwise& what, Tensor y) {
    GPUETA_ASSIGN_OR_RETURN(
        const Descriptor* pointwise, graph_.Add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
          GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{what.mode}));
          GPUETA_RETURN_IF_ERROR(
              d.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{what.precision}));
          if (!what.axis.has_value()) return absl::OkStatus();
          return d.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::vector{*what.axis});
        }));
    return graph_.AddOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *pointwise));
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *what.x));
      if (what.b != nullptr) GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *what.b));
      if (what.t != nullptr) GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *what.t));
      return d.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
    });
  }
  absl::StatusOr<Tensor> Apply(const Pointwise& what, const Dims& dims) {
    GPUETA_ASSIGN_OR_RETURN(const Tensor y, Virtual(dims));
    GPUETA_RETURN_IF_ERROR(Apply(what, y));
    return y;
  }

  // Over the dims in which y is of size 1.
  absl::Status Reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y) {
    GPUETA_ASSIGN_OR_RETURN(
        const Descriptor* reduction, graph_.Add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
          GPUETA_RETURN_IF_ERROR(
              d.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{how}));
          return d.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
        }));
    return graph_.AddOperation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x));
      GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y));
      return d.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *reduction);
    });
  }

  absl::StatusOr<Tensor> Reshape(Tensor x, const Dims& dims) {
    GPUETA_ASSIGN_OR_RETURN(const Tensor y, graph_.AddVirtual(dims, type_));
    const absl::Status added =
        graph_.AddOperation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, [&](Descriptor& d) -> absl::Status {
          GPUETA_RETURN_IF_ERROR(d.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x));
          return d.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
        });
    if (!added.ok()) return added;
    return y;
  }

  // Where a query comes before a key, minus infinity. The last query is with the last key.
  absl::StatusOr<Tensor> MaskCausally(Tensor scores) {
    const auto index = [&](std::int64_t axis) -> absl::StatusOr<Tensor> {
      GPUETA_ASSIGN_OR_RETURN(const Tensor y, graph_.AddVirtual(Scores(), CUDNN_DATA_INT32));
      GPUETA_RETURN_IF_ERROR(Apply(
          Pointwise{.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .precision = CUDNN_DATA_INT32, .axis = axis}, y));
      return y;
    };
    GPUETA_ASSIGN_OR_RETURN(Tensor row, index(2));
    GPUETA_ASSIGN_OR_RETURN(const Tensor column, index(3));
    if (kv_ > q_) {
      // By the two lengths, one after the other: the form that the engines know.
      const auto shift = [&](cudnnPointwiseMode_t mode, std::int64_t by) -> absl::StatusOr<Tensor> {
        GPUETA_ASSIGN_OR_RETURN(const Tensor length, graph_.AddScalar(static_cast<std::int32_t>(by)));
        GPUETA_ASSIGN_OR_RETURN(const Tensor y, graph_.AddVirtual(Scores(), CUDNN_DATA_INT32));
        GPUETA_RETURN_IF_ERROR(Apply(Pointwise{.mode = mode, .x = row, .b = length, .precision = CUDNN_DATA_INT32}, y));
        return y;
      };
      GPUETA_ASSIGN_OR_RETURN(row, shift(CUDNN_POINTWISE_ADD, kv_));
      GPUETA_ASSIGN_OR_RETURN(row, shift(CUDNN_POINTWISE_SUB, q_));
    }
    GPUETA_ASSIGN_OR_RETURN(const Tensor seen, graph_.AddVirtual(Scores(), CUDNN_DATA_BOOLEAN));
    GPUETA_RETURN_IF_ERROR(
        Apply(Pointwise{.mode = CUDNN_POINTWISE_CMP_GE, .x = row, .b = column, .precision = CUDNN_DATA_BOOLEAN}, seen));
    GPUETA_ASSIGN_OR_RETURN(const Tensor never, graph_.AddScalar(-std::numeric_limits<float>::infinity()));
    return Apply(Pointwise{.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = scores, .b = never, .t = seen}, Scores());
  }

  // Queries times keys, scaled.
  absl::StatusOr<Tensor> ScaledScores(Tensor queries, Tensor keys_transposed, Tensor scale) {
    GPUETA_ASSIGN_OR_RETURN(const Tensor scores, Virtual(Scores()));
    GPUETA_RETURN_IF_ERROR(Product(queries, keys_transposed, scores));
    return Apply(Pointwise{.mode = CUDNN_POINTWISE_MUL, .x = scores, .b = scale}, Scores());
  }

  // Of each key or value; summed over the queries' heads that share one.
  absl::Status KeyGradient(Tensor scores_transposed, Tensor rows, Tensor gradient) {
    if (h_ == kv_h_) return Product(scores_transposed, rows, gradient);
    GPUETA_ASSIGN_OR_RETURN(const Tensor of_heads, graph_.AddVirtual(Contiguous({b_, h_, kv_, d_}), type_));
    GPUETA_RETURN_IF_ERROR(Product(scores_transposed, rows, of_heads));
    return Reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, gradient);
  }

 private:
  Graph& graph_;
  cudnnDataType_t type_;
  std::int64_t b_, h_, kv_h_, q_, kv_, d_;
};

float ScaleOf(const Attention& attention) { return 1 / std::sqrt(static_cast<float>(attention.head_dim)); }

// A query alone sees all keys.
bool IsMasked(const Attention& attention) { return attention.causal != 0 && attention.query_len > 1; }

absl::Status BuildForward(Graph& graph, const Attention& attention, cudnnDataType_t type, bool with_statistics) {
  Builder build(graph, attention, type);
  const bool cached = IsCached(attention);
  GPUETA_ASSIGN_OR_RETURN(const Tensor q, graph.AddTensor(build.Queries(), type, Place::kInput0));
  GPUETA_ASSIGN_OR_RETURN(const Tensor kt, graph.AddTensor(Builder::Transposed(build.Keys()), type,
                                                           cached ? Place::kWeights : Place::kInput1));
  GPUETA_ASSIGN_OR_RETURN(const Tensor v,
                          graph.AddTensor(build.Keys(), type, cached ? Place::kWeights : Place::kInput2));
  GPUETA_ASSIGN_OR_RETURN(const Tensor o, graph.AddTensor(build.Queries(), type, Place::kOutput));
  GPUETA_ASSIGN_OR_RETURN(const Tensor scale, graph.AddScalar(ScaleOf(attention)));
  GPUETA_ASSIGN_OR_RETURN(Tensor scores, build.ScaledScores(q, kt, scale));
  if (IsMasked(attention)) {
    GPUETA_ASSIGN_OR_RETURN(scores, build.MaskCausally(scores));
  }
  using Pointwise = Builder::Pointwise;
  GPUETA_ASSIGN_OR_RETURN(const Tensor greatest, build.Virtual(build.PerRow()));
  GPUETA_RETURN_IF_ERROR(build.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, greatest));
  GPUETA_ASSIGN_OR_RETURN(
      const Tensor below,
      build.Apply(Pointwise{.mode = CUDNN_POINTWISE_SUB, .x = scores, .b = greatest}, build.Scores()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor exponential,
                          build.Apply(Pointwise{.mode = CUDNN_POINTWISE_EXP, .x = below}, build.Scores()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor sum, build.Virtual(build.PerRow()));
  GPUETA_RETURN_IF_ERROR(build.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum));
  GPUETA_ASSIGN_OR_RETURN(const Tensor logarithm,
                          build.Apply(Pointwise{.mode = CUDNN_POINTWISE_LOG, .x = sum}, build.PerRow()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor statistics,
                          with_statistics ? graph.AddTensor(build.PerRow(), CUDNN_DATA_FLOAT, Place::kOutput)
                                          : build.Virtual(build.PerRow()));
  GPUETA_RETURN_IF_ERROR(
      build.Apply(Pointwise{.mode = CUDNN_POINTWISE_ADD, .x = greatest, .b = logarithm}, statistics));
  // The second product takes its first operand in the type of the tensors.
  GPUETA_ASSIGN_OR_RETURN(const Tensor shares, graph.AddVirtual(build.Scores(), type));
  GPUETA_RETURN_IF_ERROR(build.Apply(Pointwise{.mode = CUDNN_POINTWISE_DIV, .x = exponential, .b = sum}, shares));
  return build.Product(shares, v, o);
}

absl::Status BuildBackward(Graph& graph, const Attention& attention, cudnnDataType_t type) {
  Builder build(graph, attention, type);
  using Pointwise = Builder::Pointwise;
  GPUETA_ASSIGN_OR_RETURN(const Tensor q, graph.AddTensor(build.Queries(), type, Place::kInput0));
  const Dims keys_transposed = Builder::Transposed(build.Keys());
  GPUETA_ASSIGN_OR_RETURN(const Tensor kt, graph.AddTensor(keys_transposed, type, Place::kInput1));
  GPUETA_ASSIGN_OR_RETURN(const Tensor vt, graph.AddTensor(keys_transposed, type, Place::kInput2));
  GPUETA_ASSIGN_OR_RETURN(const Tensor o, graph.AddTensor(build.Queries(), type, Place::kInput3));
  GPUETA_ASSIGN_OR_RETURN(const Tensor gradient, graph.AddTensor(build.Queries(), type, Place::kInput3));
  GPUETA_ASSIGN_OR_RETURN(const Tensor statistics, graph.AddTensor(build.PerRow(), CUDNN_DATA_FLOAT, Place::kInput3));
  GPUETA_ASSIGN_OR_RETURN(const Tensor dq, graph.AddTensor(build.Queries(), type, Place::kOutput));
  GPUETA_ASSIGN_OR_RETURN(const Tensor dk, graph.AddTensor(build.Keys(), type, Place::kOutput));
  GPUETA_ASSIGN_OR_RETURN(const Tensor dv, graph.AddTensor(build.Keys(), type, Place::kOutput));
  GPUETA_ASSIGN_OR_RETURN(const Tensor scale, graph.AddScalar(ScaleOf(attention)));
  GPUETA_ASSIGN_OR_RETURN(const Tensor one, graph.AddScalar(1));

  // The row sums of gradient · output: in memory, as the fused engines want them.
  GPUETA_ASSIGN_OR_RETURN(const Tensor weighted,
                          build.Apply(Pointwise{.mode = CUDNN_POINTWISE_MUL, .x = gradient, .b = o}, build.Queries()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor row_sums, build.Virtual(build.PerRow()));
  GPUETA_RETURN_IF_ERROR(build.Reduce(CUDNN_REDUCE_TENSOR_ADD, weighted, row_sums));
  GPUETA_ASSIGN_OR_RETURN(const Tensor sums, graph.AddTensor(build.PerRow(), CUDNN_DATA_FLOAT, Place::kScratch));
  GPUETA_RETURN_IF_ERROR(build.Apply(Pointwise{.mode = CUDNN_POINTWISE_MUL, .x = row_sums, .b = one}, sums));

  // The probabilities again, and with them the values' gradients.
  GPUETA_ASSIGN_OR_RETURN(Tensor scores, build.ScaledScores(q, kt, scale));
  GPUETA_ASSIGN_OR_RETURN(
      scores, build.Apply(Pointwise{.mode = CUDNN_POINTWISE_SUB, .x = scores, .b = statistics}, build.Scores()));
  if (IsMasked(attention)) {
    GPUETA_ASSIGN_OR_RETURN(scores, build.MaskCausally(scores));
  }
  GPUETA_ASSIGN_OR_RETURN(const Tensor shares,
                          build.Apply(Pointwise{.mode = CUDNN_POINTWISE_EXP, .x = scores}, build.Scores()));
  Dims scores_transposed = Builder::Transposed(build.Scores());
  GPUETA_ASSIGN_OR_RETURN(const Tensor shares_transposed, build.Reshape(shares, scores_transposed));
  GPUETA_RETURN_IF_ERROR(build.KeyGradient(shares_transposed, gradient, dv));

  // The scores' gradients, and with them the keys' and the queries'.
  GPUETA_ASSIGN_OR_RETURN(const Tensor d_shares, build.Virtual(build.Scores()));
  GPUETA_RETURN_IF_ERROR(build.Product(gradient, vt, d_shares));
  GPUETA_ASSIGN_OR_RETURN(
      const Tensor centred,
      build.Apply(Pointwise{.mode = CUDNN_POINTWISE_SUB, .x = d_shares, .b = sums}, build.Scores()));
  GPUETA_ASSIGN_OR_RETURN(
      const Tensor unscaled,
      build.Apply(Pointwise{.mode = CUDNN_POINTWISE_MUL, .x = centred, .b = shares}, build.Scores()));
  GPUETA_ASSIGN_OR_RETURN(
      const Tensor d_scores,
      build.Apply(Pointwise{.mode = CUDNN_POINTWISE_MUL, .x = unscaled, .b = scale}, build.Scores()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor d_scores_transposed, build.Reshape(d_scores, scores_transposed));
  GPUETA_RETURN_IF_ERROR(build.KeyGradient(d_scores_transposed, q, dk));
  GPUETA_ASSIGN_OR_RETURN(const Tensor keys, build.Reshape(kt, build.Keys()));
  GPUETA_ASSIGN_OR_RETURN(const Tensor added_up,
                          graph.AddTensor(Contiguous(build.Queries().sizes), CUDNN_DATA_FLOAT, Place::kScratch));
  GPUETA_RETURN_IF_ERROR(build.Product(d_scores, keys, added_up));
  return build.Apply(Pointwise{.mode = CUDNN_POINTWISE_IDENTITY, .x = added_up}, dq);
}

}  // namespace

absl::Status SupportsAttention(const Attention& attention, DType dtype, Pass pass, std::size_t version) {
  if (dtype != DType::kFp16 && dtype != DType::kBf16) {
    return absl::UnimplementedError(fmt::format("cuDNN's fused attention in {}", Name(dtype)));
  }
  if (attention.kv_dtype != dtype) {
    return absl::UnimplementedError(
        fmt::format("keys and values in {}, queries in {}", Name(attention.kv_dtype), Name(dtype)));
  }
  if (pass == Pass::kDataGradient || pass == Pass::kWeightGradient) {
    return absl::UnimplementedError("attention has one backward pass: cudnn_bwd");
  }
  if (IsMasked(attention) && attention.query_len != attention.kv_len) {
    if (attention.query_len > attention.kv_len) {
      return absl::UnimplementedError("causal attention of more queries than keys through cuDNN");
    }
    if (pass == Pass::kBackward) {
      return absl::UnimplementedError("gradients of causal attention behind a cached prefix through cuDNN");
    }
    constexpr std::size_t kAnyPrefix = 90'600;  // 9.6.0
    if (version < kAnyPrefix && (attention.query_len % 64 != 0 || attention.kv_len % 64 != 0)) {
      return absl::UnimplementedError(
          "causal attention behind a cached prefix, of lengths that are no multiples of 64, needs cuDNN 9.6.0");
    }
  }
  if (pass != Pass::kBackward) return absl::OkStatus();
  constexpr std::size_t kClearsScratch = 90'600;  // 9.6.0
  if (version < kClearsScratch) return absl::UnimplementedError("attention backward needs cuDNN 9.6.0");
  constexpr std::size_t kAnyLength = 91'501;
  if (version < kAnyLength && attention.kv_len % 128 != 0) {
    return absl::UnimplementedError("attention backward over a kv_len that is no multiple of 128 needs cuDNN 9.15.1");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> MakeAttention(const Api& api, cudnnHandle_t handle, const Attention& attention,
                                                     DType dtype, Pass pass, bool with_statistics) {
  auto graph = std::make_unique<Graph>(api);
  const cudnnDataType_t type = *TypeOf(dtype);
  GPUETA_RETURN_IF_ERROR(pass == Pass::kBackward ? BuildBackward(*graph, attention, type)
                                                 : BuildForward(*graph, attention, type, with_statistics));
  GPUETA_RETURN_IF_ERROR(graph->Finish(handle));
  return graph;
}

}  // namespace gpueta::cudnn
