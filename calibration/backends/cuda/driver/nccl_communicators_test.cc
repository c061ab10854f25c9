// With a table of functions in place of NCCL's: what is called, in which order, and what
// becomes of errors.
#include "calibration/backends/cuda/driver/nccl_communicators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibration/backends/cuda/simulated/simulated_driver.h"
#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the functions were called with, a word each.
std::vector<std::string> calls;
nccl::Result all_reduce_returns = nccl::kSuccess;
nccl::Result asynchronous_error = nccl::kSuccess;
nccl::Result init_returns = nccl::kSuccess;

std::size_t IndexOf(nccl::Comm comm) { return reinterpret_cast<std::size_t>(comm) - 1; }

nccl::Api RecordingApi() {
  calls.clear();
  all_reduce_returns = asynchronous_error = init_returns = nccl::kSuccess;
  nccl::Api api;
  api.ncclGetVersion = [](int* version) {
    *version = 22'809;
    return nccl::kSuccess;
  };
  api.ncclGetErrorString = [](nccl::Result) { return "unhandled"; };
  api.ncclGetLastError = [](nccl::Comm) { return "the cable is out"; };
  api.ncclCommInitAll = [](nccl::Comm* comms, int count, const int* devices) {
    std::string text = "init";
    for (int i = 0; i < count; ++i) {
      comms[i] = reinterpret_cast<nccl::Comm>(static_cast<std::size_t>(i) + 1);
      text += " " + std::to_string(devices[i]);
    }
    calls.push_back(text);
    return init_returns;
  };
  api.ncclCommDestroy = [](nccl::Comm comm) {
    calls.push_back("destroy " + std::to_string(IndexOf(comm)));
    return nccl::kSuccess;
  };
  api.ncclCommAbort = [](nccl::Comm comm) {
    calls.push_back("abort " + std::to_string(IndexOf(comm)));
    return nccl::kSuccess;
  };
  api.ncclCommGetAsyncError = [](nccl::Comm comm, nccl::Result* error) {
    *error = IndexOf(comm) == 1 ? asynchronous_error : nccl::kSuccess;
    return nccl::kSuccess;
  };
  api.ncclAllReduce = [](const void*, void*, std::size_t count, int type, int op, nccl::Comm comm, nccl::Stream) {
    calls.push_back(fmt::format("all_reduce {} of type {} by {} on {}", count, type, op, IndexOf(comm)));
    return all_reduce_returns;
  };
  api.ncclSend = [](const void*, std::size_t count, int type, int peer, nccl::Comm comm, nccl::Stream) {
    calls.push_back(fmt::format("send {} of type {} from {} to {}", count, type, IndexOf(comm), peer));
    return nccl::kSuccess;
  };
  api.ncclRecv = [](void*, std::size_t count, int type, int peer, nccl::Comm comm, nccl::Stream) {
    calls.push_back(fmt::format("receive {} of type {} on {} from {}", count, type, IndexOf(comm), peer));
    return nccl::kSuccess;
  };
  api.ncclGroupStart = [] {
    calls.emplace_back("begin");
    return nccl::kSuccess;
  };
  api.ncclGroupEnd = [] {
    calls.emplace_back("end");
    return nccl::kSuccess;
  };
  return api;
}

class NcclTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Communicators>> Connect() {
    CudaDevice* devices[] = {second_.get(), first_.get()};
    return library_->Connect(devices);
  }

  nccl::Api api_ = RecordingApi();
  SimulatedDriver driver_{SimulatedGpu{}};
  std::unique_ptr<SimulatedDevice> first_ = driver_.OpenSimulated();
  std::unique_ptr<SimulatedDevice> second_ = driver_.OpenSimulated();
  std::unique_ptr<CollectiveLibrary> library_ = MakeNcclLibrary(api_);
  const std::vector<StreamHandle> streams_{StreamHandle{}, StreamHandle{}};
};

TEST_F(NcclTest, RanksAreOnTheDevicesInTheirOrder) {
  EXPECT_EQ(library_->version(), "2.28.9");
  { const auto ranks = Connect(); }
  EXPECT_THAT(calls, ElementsAre("init 1 0", "destroy 0", "destroy 1"));
}

TEST_F(NcclTest, AllRanksCallInOneGroup) {
  const auto ranks = Connect().value();
  calls.clear();
  const ExchangeCall sum{.what = Exchange::kAllReduce, .count = 64};
  ASSERT_TRUE(ranks->Enqueue({{sum}, {sum}}, DType::kBf16, streams_).ok());
  EXPECT_THAT(calls,
              ElementsAre("begin", "all_reduce 64 of type 9 by 0 on 0", "all_reduce 64 of type 9 by 0 on 1", "end"));
}

TEST_F(NcclTest, SendsAndReceivesNameTheirPeers) {
  const auto ranks = Connect().value();
  calls.clear();
  ASSERT_TRUE(ranks
                  ->Enqueue({{{.what = Exchange::kSend, .count = 8, .peer = 1}},
                             {{.what = Exchange::kReceive, .count = 8, .peer = 0}}},
                            DType::kFp16, streams_)
                  .ok());
  EXPECT_THAT(calls, ElementsAre("begin", "send 8 of type 6 from 0 to 1", "receive 8 of type 6 on 1 from 0", "end"));
}

TEST_F(NcclTest, AGroupIsEndedThoughACallFailed) {
  const auto ranks = Connect().value();
  calls.clear();
  all_reduce_returns = nccl::kSystemError;
  const ExchangeCall sum{.what = Exchange::kAllReduce, .count = 64};
  const absl::Status status = ranks->Enqueue({{sum}, {sum}}, DType::kFp32, streams_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("ncclAllReduce: unhandled (the cable is out)"));
  EXPECT_THAT(calls, ElementsAre("begin", "all_reduce 64 of type 7 by 0 on 0", "end"));
}

TEST_F(NcclTest, AnErrorThatCameUpSinceIsTold) {
  const auto ranks = Connect().value();
  EXPECT_TRUE(ranks->Health().ok());
  asynchronous_error = nccl::kInProgress;
  EXPECT_TRUE(ranks->Health().ok());
  asynchronous_error = nccl::kUnhandledCudaError;
  EXPECT_EQ(ranks->Health().code(), absl::StatusCode::kInternal);
}

TEST_F(NcclTest, AfterAnAbortNothingIsEnqueuedOrDestroyed) {
  {
    const auto ranks = Connect().value();
    calls.clear();
    ranks->Abort();
    EXPECT_EQ(ranks->Enqueue({{}, {}}, DType::kFp32, streams_).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(calls, ElementsAre("abort 0", "abort 1"));
}

TEST_F(NcclTest, WhatAFailedConnectionLeavesIsNotTouched) {
  init_returns = nccl::kSystemError;
  EXPECT_EQ(Connect().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(calls, ElementsAre("init 1 0"));
}

}  // namespace
}  // namespace gpueta
