#include "calibration/backends/cuda/collectives/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Kernel Of(const std::string& op, std::int64_t bytes, std::int64_t ranks, DType dtype = DType::kInt8) {
  return {.dtype = dtype, .work = Collective{.op = op, .backend = "nccl-tests", .bytes = bytes, .ranks = ranks}};
}

// Carries out what ranks call, on this machine's memory: int8, sums.
class HostRanks {
 public:
  HostRanks(const Kernel& kernel) : ranks_(static_cast<std::size_t>(std::get<Collective>(kernel.work).ranks)) {
    const RankBytes bytes = BuffersOf(kernel);
    from_.assign(ranks_, std::vector<std::int8_t>(bytes.from));
    to_.assign(ranks_, std::vector<std::int8_t>(bytes.to, -1));
    // Rank r's element i is 16 r + i.
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::iota(from_[rank].begin(), from_[rank].end(), static_cast<std::int8_t>(16 * rank));
    }
    std::vector<RankBuffers> buffers;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      buffers.push_back({.from = reinterpret_cast<DevicePointer>(from_[rank].data()),
                         .to = reinterpret_cast<DevicePointer>(to_[rank].data())});
    }
    const auto calls = CallsOf(kernel, buffers);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::map<int, std::size_t> sends;  // to a peer, in order
      for (const ExchangeCall& call : calls[rank]) Run(rank, call, calls, sends);
    }
  }
  const std::vector<std::int8_t>& result(std::size_t rank) const { return to_[rank]; }

 private:
  static std::int8_t* At(DevicePointer pointer) { return reinterpret_cast<std::int8_t*>(pointer); }
  std::int8_t* ToOf(std::size_t rank, DevicePointer pointer, std::size_t count) {
    EXPECT_GE(At(pointer), to_[rank].data());
    EXPECT_LE(At(pointer) + count, to_[rank].data() + to_[rank].size());
    return At(pointer);
  }
  void Run(std::size_t rank, const ExchangeCall& call, const std::vector<std::vector<ExchangeCall>>& all,
           std::map<int, std::size_t>& received) {
    const std::size_t n = call.count;
    switch (call.what) {
      case Exchange::kAllReduce:
      case Exchange::kReduceScatter: {
        const std::size_t first = call.what == Exchange::kReduceScatter ? rank * n : 0;
        std::int8_t* to = ToOf(rank, call.to, n);
        for (std::size_t i = 0; i < n; ++i) {
          to[i] = 0;
          for (std::size_t other = 0; other < ranks_; ++other)
            to[i] = static_cast<std::int8_t>(to[i] + from_[other].at(first + i));
        }
        break;
      }
      case Exchange::kAllGather:
        for (std::size_t other = 0; other < ranks_; ++other) {
          std::copy_n(from_[other].begin(), n, ToOf(rank, call.to, n * ranks_) + other * n);
        }
        break;
      case Exchange::kSend: break;  // when it is received
      case Exchange::kReceive: {
        // The peer's sends to this rank, in order.
        std::size_t skip = received[call.peer]++;
        for (const ExchangeCall& sent : all[static_cast<std::size_t>(call.peer)]) {
          if (sent.what != Exchange::kSend || sent.peer != static_cast<int>(rank) || skip-- > 0) continue;
          EXPECT_EQ(sent.count, n);
          std::copy_n(At(sent.from), n, ToOf(rank, call.to, n));
          return;
        }
        ADD_FAILURE() << "rank " << rank << " waits for rank " << call.peer;
      }
    }
  }

  std::size_t ranks_;
  std::vector<std::vector<std::int8_t>> from_, to_;
};

TEST(CollectivePlanTest, EveryRankGetsWhatTheOperatorSays) {
  const HostRanks sum(Of("all_reduce", 3, 2));
  for (std::size_t rank : {0, 1}) EXPECT_THAT(sum.result(rank), ElementsAre(16, 18, 20));
  const HostRanks gather(Of("all_gather", 4, 2));
  for (std::size_t rank : {0, 1}) EXPECT_THAT(gather.result(rank), ElementsAre(0, 1, 16, 17));
  const HostRanks scatter(Of("reduce_scatter", 4, 2));
  EXPECT_THAT(scatter.result(0), ElementsAre(16, 18));
  EXPECT_THAT(scatter.result(1), ElementsAre(20, 22));
  const HostRanks exchange(Of("alltoall", 6, 3));
  EXPECT_THAT(exchange.result(0), ElementsAre(0, 1, 16, 17, 32, 33));
  EXPECT_THAT(exchange.result(2), ElementsAre(4, 5, 20, 21, 36, 37));
  const HostRanks ring(Of("send_recv", 2, 3));
  EXPECT_THAT(ring.result(0), ElementsAre(32, 33));
  EXPECT_THAT(ring.result(1), ElementsAre(0, 1));
  EXPECT_THAT(ring.result(2), ElementsAre(16, 17));
}

// BusBytes is what each rank sends: by the calls of one rank, as rings send.
TEST(CollectivePlanTest, RanksSendWhatTheTablesCount) {
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "send_recv"}) {
    const Kernel kernel = Of(op, 1 << 20, 4, DType::kFp16);
    const std::vector<RankBuffers> buffers(4, {.from = 0x10000000, .to = 0x20000000});
    const auto calls = CallsOf(kernel, buffers);
    for (int rank = 0; rank < 4; ++rank) {
      double bytes = 0;
      for (const ExchangeCall& call : calls[static_cast<std::size_t>(rank)]) {
        const double count = 2.0 * static_cast<double>(call.count);
        if (call.what == Exchange::kAllReduce) bytes += count * 2 * 3 / 4;
        if (call.what == Exchange::kAllGather || call.what == Exchange::kReduceScatter) bytes += count * 3;
        if (call.what == Exchange::kSend && call.peer != rank) bytes += count;
      }
      EXPECT_DOUBLE_EQ(bytes, BusBytes(std::get<Collective>(kernel.work))) << op;
    }
  }
}

TEST(CollectivePlanTest, PartsAreWholeElements) {
  const RankBytes bytes = BuffersOf(Of("all_gather", 1'000, 3, DType::kFp32));
  EXPECT_EQ(bytes.from, 84U * 4);  // 250 elements, 84 a rank
  EXPECT_EQ(bytes.to, 252U * 4);
  EXPECT_EQ(BuffersOf(Of("all_reduce", 7, 2, DType::kFp16)).from, 8U);
}

TEST(CollectivePlanTest, DevicesOfAnotherKindAreNoRanks) {
  std::vector<DeviceProperties> devices;
  for (int ordinal = 0; ordinal < 5; ++ordinal) {
    devices.push_back(
        {.ordinal = ordinal, .name = "NVIDIA L4", .compute_major = 8, .compute_minor = 9, .sm_count = 58});
  }
  devices[1].name = "NVIDIA T4";
  devices[3].sm_count = 29;
  EXPECT_THAT(RankOrdinals(devices, 2), ElementsAre(2, 0, 4));
  EXPECT_THAT(RankOrdinals(devices, 1), ElementsAre(1));
  for (DeviceProperties& device : devices) device.name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
  EXPECT_THAT(RankOrdinals(devices, 2), ElementsAre(2));
}

TEST(CollectivePlanTest, RanksLieAStrideApart) {
  Kernel kernel = Of("all_reduce", 512, 2);
  EXPECT_THAT(RankPositions(kernel, 4).value(), ElementsAre(0, 1));
  std::get<Collective>(kernel.work).stride = 3;
  EXPECT_THAT(RankPositions(kernel, 4).value(), ElementsAre(0, 3));
  EXPECT_THAT(MessageOf(RankPositions(kernel, 3).status()), HasSubstr("2 ranks, 3 devices apart: 3 GPUs"));
}

TEST(CollectivePlanTest, SaysWhatIsNotMeasured) {
  const auto why = [](const Kernel& kernel) {
    const absl::Status status = RankPositions(kernel, 2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    return MessageOf(status);
  };
  EXPECT_THAT(why(Of("all_reduce", 512, 4)), HasSubstr("over 4 ranks: 2 GPUs"));
  EXPECT_THAT(why(Of("broadcast", 512, 2)), HasSubstr("\"broadcast\": measured are all_reduce, all_gather"));
  EXPECT_THAT(why(Of("all_reduce", 512, 2, DType::kFp8)), HasSubstr("all_reduce in fp8"));
  EXPECT_TRUE(RankPositions(Of("all_gather", 512, 2, DType::kFp8), 2).ok());
  Kernel other = Of("all_reduce", 512, 2);
  std::get<Collective>(other.work).backend = "vllm";
  EXPECT_THAT(why(other), HasSubstr("backend \"vllm\""));
}

}  // namespace
}  // namespace gpueta
