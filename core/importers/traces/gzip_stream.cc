#include "core/importers/traces/gzip_stream.h"

#include <algorithm>

#include "core/base/errors.h"

namespace gpueta {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
constexpr int kGzipHeader = 16;  // zlib: added to the window bits, expects gzip's header
constexpr std::string_view kMagic = "\x1f\x8b";

}  // namespace

GzipOrPlainFile::GzipOrPlainFile(const std::string& path) : file_(path, std::ios::binary), input_(kBufferBytes) {
  if (!file_) {
    status_ = NotFound("cannot be opened");
    return;
  }
  const std::size_t bytes = Refill();
  compressed_ = std::string_view(input_.data(), bytes).starts_with(kMagic);
  if (!compressed_) {
    setg(input_.data(), input_.data(), input_.data() + bytes);
    return;
  }
  output_.resize(kBufferBytes);
  zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
  zlib_.avail_in = static_cast<uInt>(bytes);
  if (inflateInit2(&zlib_, MAX_WBITS + kGzipHeader) != Z_OK) status_ = Internal("zlib cannot be used");
}

GzipOrPlainFile::~GzipOrPlainFile() {
  if (compressed_) inflateEnd(&zlib_);
}

std::size_t GzipOrPlainFile::Refill() {
  file_.read(input_.data(), static_cast<std::streamsize>(input_.size()));
  return static_cast<std::size_t>(std::max<std::streamsize>(file_.gcount(), 0));
}

// Bytes of output; 0 at the end and after an error.
std::size_t GzipOrPlainFile::Inflate() {
  zlib_.next_out = reinterpret_cast<Bytef*>(output_.data());
  zlib_.avail_out = static_cast<uInt>(output_.size());
  while (zlib_.avail_out == output_.size()) {
    if (zlib_.avail_in == 0) {
      zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
      zlib_.avail_in = static_cast<uInt>(Refill());
      if (zlib_.avail_in == 0) {
        if (!between_members_) status_ = InvalidArgument("the gzip file is cut short");
        break;
      }
    }
    if (between_members_ && inflateReset(&zlib_) != Z_OK) break;
    between_members_ = false;
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      status_ = InvalidArgument("the gzip file is corrupt: {}", zlib_.msg != nullptr ? zlib_.msg : "unknown data");
      break;
    }
  }
  return output_.size() - zlib_.avail_out;
}

GzipOrPlainFile::int_type GzipOrPlainFile::underflow() {
  if (!status_.ok()) return traits_type::eof();
  std::vector<char>& text = compressed_ ? output_ : input_;
  const std::size_t bytes = compressed_ ? Inflate() : Refill();
  if (bytes == 0) return traits_type::eof();
  setg(text.data(), text.data(), text.data() + bytes);
  return traits_type::to_int_type(*gptr());
}

}  // namespace gpueta
