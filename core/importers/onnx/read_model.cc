#include "core/importers/onnx/read_model.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <array>
#include <string>

#include "core/base/errors.h"

namespace gpueta::onnx_import {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using WireFormat = google::protobuf::internal::WireFormatLite;

// Deeper than any model; the parser recurses as deep.
constexpr int kMaxDepth = 100;

// FunctionProto.attribute_proto of ONNX 1.13: attributes with default values.
constexpr int kFunctionDefaults = 11;

// Contents of tensors above this are not read: only small ones are ever looked
// at, see kMaxContents.
constexpr std::uint32_t kLargestPayload = 16 << 10;

// What the parsed messages may occupy. Protobuf unpacks two bytes into up to
// some hundred, so that the size of a file does not bound it. The largest
// language models unpack to some hundred MB.
constexpr std::int64_t kMaxUnpackedBytes = std::int64_t{1} << 30;
constexpr std::int64_t kBytesOfMessage = 192;  // of the largest of ONNX's, with its place in a list
constexpr std::int64_t kBytesOfString = 48;
constexpr std::int64_t kBytesOfNumber = 8;

void AppendVarint(std::uint64_t value, std::string& out) {
  constexpr std::size_t kMaxVarintBytes = 10;
  std::array<std::uint8_t, kMaxVarintBytes> bytes;
  const std::uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes.data());
  out.append(static_cast<const std::uint8_t*>(bytes.data()), end);
}

// A length that is filled in once what it measures has been written: a varint
// padded to 5 bytes.
constexpr std::size_t kLengthBytes = 5;

void FillLength(std::size_t at, std::string& out) {
  std::size_t length = out.size() - at - kLengthBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    const bool last = i + 1 == kLengthBytes;
    out[at + i] = static_cast<char>((length & 0x7F) | (last ? 0 : 0x80));
    length >>= 7;
  }
}

// Copies a message field by field, leaving out payloads and fields that
// onnx.proto does not know, and adds up what the copy unpacks to.
class SkeletonCopier {
 public:
  SkeletonCopier(CodedInputStream& in, std::string& out) : in_(in), out_(out) {}

  // The fields of one message, up to the stream's current limit. False if the
  // bytes are malformed or too much.
  bool Copy(const Descriptor& descriptor, int depth) {
    while (!too_large()) {
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return in_.BytesUntilLimit() == 0;
      const int number = WireFormat::GetTagFieldNumber(tag);
      const bool defaults = number == kFunctionDefaults && &descriptor == onnx::FunctionProto::descriptor();
      if (defaults && WireFormat::GetTagWireType(tag) == WireFormat::WIRETYPE_LENGTH_DELIMITED) {
        if (!CopyDefaults(tag, depth)) return false;
        continue;
      }
      if (!CopyField(descriptor.FindFieldByNumber(number), tag, depth)) return false;
    }
    return false;
  }

  bool too_large() const { return unpacked_bytes_ > kMaxUnpackedBytes; }

 private:
  bool CopyField(const FieldDescriptor* field, std::uint32_t tag, int depth) {
    switch (WireFormat::GetTagWireType(tag)) {
      case WireFormat::WIRETYPE_VARINT: {
        std::uint64_t value = 0;
        if (!in_.ReadVarint64(&value)) return false;
        if (field == nullptr) return true;
        AppendVarint(tag, out_);
        AppendVarint(value, out_);
        unpacked_bytes_ += kBytesOfNumber;
        return true;
      }
      case WireFormat::WIRETYPE_FIXED32: return CopyBytes(field, tag, 4);
      case WireFormat::WIRETYPE_FIXED64: return CopyBytes(field, tag, 8);
      case WireFormat::WIRETYPE_LENGTH_DELIMITED: return CopyDelimited(field, tag, depth);
      default: return false;  // ONNX has no groups
    }
  }

  // `count` bytes of a value that has no length of its own, or has it before
  // them.
  bool CopyBytes(const FieldDescriptor* field, std::uint32_t tag, int count) {
    if (field == nullptr) return in_.Skip(count);
    AppendVarint(tag, out_);
    if (WireFormat::GetTagWireType(tag) == WireFormat::WIRETYPE_LENGTH_DELIMITED) {
      AppendVarint(static_cast<std::uint64_t>(count), out_);
    }
    unpacked_bytes_ += kBytesOfNumber;
    const std::size_t at = out_.size();
    out_.resize(at + static_cast<std::size_t>(count));
    return in_.ReadRaw(out_.data() + at, count);
  }

  // An attribute that the packaged onnx.proto does not know the field of.
  bool CopyDefaults(std::uint32_t tag, int depth) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || std::int64_t{length} > in_.BytesUntilLimit()) return false;
    return CopyMessage(*onnx::AttributeProto::descriptor(), tag, static_cast<int>(length), depth);
  }

  bool CopyDelimited(const FieldDescriptor* field, std::uint32_t tag, int depth) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || std::int64_t{length} > in_.BytesUntilLimit()) return false;
    const int count = static_cast<int>(length);
    if (field != nullptr && field->message_type() != nullptr) {
      return CopyMessage(*field->message_type(), tag, count, depth);
    }
    const bool text = field != nullptr && field->type() == FieldDescriptor::TYPE_STRING;
    if (!text && length > kLargestPayload) return in_.Skip(count);
    // Without being text it may be numbers of a byte each.
    unpacked_bytes_ += text ? kBytesOfString + count : kBytesOfNumber * std::int64_t{count};
    return CopyBytes(field, tag, count);
  }

  bool CopyMessage(const Descriptor& descriptor, std::uint32_t tag, int length, int depth) {
    if (depth == kMaxDepth) return false;
    unpacked_bytes_ += kBytesOfMessage;
    AppendVarint(tag, out_);
    const std::size_t at = out_.size();
    out_.append(kLengthBytes, '\0');
    const CodedInputStream::Limit limit = in_.PushLimit(length);
    if (!Copy(descriptor, depth + 1)) return false;
    in_.PopLimit(limit);
    FillLength(at, out_);
    return true;
  }

  CodedInputStream& in_;
  std::string& out_;
  std::int64_t unpacked_bytes_ = 0;
};

absl::Status NotOnnx() {
  return InvalidArgument("the input is not an ONNX file or is cut short; export or copy the model again");
}

}  // namespace

std::vector<onnx::AttributeProto> DefaultsOf(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> defaults;
  const google::protobuf::UnknownFieldSet& fields = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != kFunctionDefaults || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (!defaults.emplace_back().ParseFromString(field.length_delimited())) defaults.pop_back();
  }
  return defaults;
}

absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ReadModel(google::protobuf::io::ZeroCopyInputStream& stream,
                                                            std::int64_t size) {
  if (size > kMaxFileBytes) {
    return ResourceExhausted("an ONNX file has at most 2 GiB, this one has {} bytes; export it with external data",
                             size);
  }
  std::string skeleton;
  CodedInputStream in(&stream);
  in.PushLimit(static_cast<int>(size));
  SkeletonCopier copier(in, skeleton);
  if (!copier.Copy(*onnx::ModelProto::descriptor(), 0)) {
    if (copier.too_large()) {
      return ResourceExhausted("the ONNX file unpacks to more than {} GiB", kMaxUnpackedBytes >> 30);
    }
    return NotOnnx();
  }
  auto model = std::make_unique<onnx::ModelProto>();
  if (!model->ParseFromString(skeleton)) return NotOnnx();
  // Any bytes may happen to be fields of a message: what every model has tells.
  const bool has_content = model->graph().node_size() > 0 || model->graph().output_size() > 0;
  if (model->ir_version() < 1 || !has_content || model->opset_import_size() == 0) return NotOnnx();
  return model;
}

}  // namespace gpueta::onnx_import
