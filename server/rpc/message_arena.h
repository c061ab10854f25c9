// Arenas for the messages of a call, so that a message costs one allocation or
// none instead of one for each of its parts.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

namespace gpueta {

// Request and response of a unary call on one arena.
template <class Request, class Response>
class ArenaAllocator final : public grpc::MessageAllocator<Request, Response> {
 public:
  grpc::MessageHolder<Request, Response>* AllocateMessages() override { return new Holder(); }

 private:
  class Holder final : public grpc::MessageHolder<Request, Response> {
   public:
    Holder() : arena_(block_, sizeof(block_)) {
      this->set_request(google::protobuf::Arena::CreateMessage<Request>(&arena_));
      this->set_response(google::protobuf::Arena::CreateMessage<Response>(&arena_));
    }
    void Release() override { delete this; }

   private:
    // Enough for a kernel and its answer on a few devices.
    alignas(std::max_align_t) char block_[4096];
    google::protobuf::Arena arena_;
  };
};

// Request and response of one item of a stream, used again for the next item:
// the block grows to what items need, after which they allocate nothing.
template <class Request, class Response>
class ReusedMessages {
 public:
  ReusedMessages() { Reset(); }

  // Empty messages; the old ones are gone.
  void Reset() {
    const std::size_t needed = arena_.has_value() ? arena_->SpaceAllocated() : kSmallestBlock;
    arena_.reset();
    if (needed > block_size_ && block_size_ < kLargestBlock) {
      block_size_ = std::min(std::max(needed, 2 * block_size_), kLargestBlock);
      block_.reset(new char[block_size_]);
    }
    arena_.emplace(block_.get(), block_size_);
    request_ = google::protobuf::Arena::CreateMessage<Request>(&*arena_);
    response_ = google::protobuf::Arena::CreateMessage<Response>(&*arena_);
  }

  Request& request() { return *request_; }
  Response& response() { return *response_; }

 private:
  // One megabyte holds some 10,000 rows with their answers; a stream keeps two
  // such blocks.
  static constexpr std::size_t kSmallestBlock = std::size_t{4} << 10;
  static constexpr std::size_t kLargestBlock = std::size_t{1} << 20;

  std::size_t block_size_ = 0;
  std::unique_ptr<char[]> block_;
  std::optional<google::protobuf::Arena> arena_;
  Request* request_ = nullptr;
  Response* response_ = nullptr;
};

}  // namespace gpueta
