// Reading a file that may be compressed by gzip, piece by piece.
#pragma once

#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpueta {

// The text of a file: of one that begins as gzip does what it holds, of any other
// the file itself. Memory does not go with its size.
class GzipOrPlainFile : public std::streambuf {
 public:
  explicit GzipOrPlainFile(const std::string& path);
  GzipOrPlainFile(const GzipOrPlainFile&) = delete;
  GzipOrPlainFile& operator=(const GzipOrPlainFile&) = delete;
  ~GzipOrPlainFile() override;

  // NOT_FOUND if it cannot be opened; INVALID_ARGUMENT, once it was read, for
  // gzip that is corrupt or cut short. The text ends there.
  const absl::Status& status() const { return status_; }

 protected:
  int_type underflow() override;

 private:
  std::size_t Refill();  // bytes of the file now in input_
  std::size_t Inflate();

  std::ifstream file_;
  std::vector<char> input_;
  std::vector<char> output_;  // of gzip only
  z_stream zlib_ = {};
  bool compressed_ = false;
  bool between_members_ = false;  // gzip files may be several, one after another
  absl::Status status_;
};

}  // namespace gpueta
