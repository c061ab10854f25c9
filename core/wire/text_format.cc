#include "core/wire/text_format.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <charconv>
#include <string>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

// Keeps the first error of the text format parser.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Takes "name[index]" off the front of a path; -1 without an index.
std::pair<std::string, int> TakeStep(std::string_view& path) {
  const std::size_t end = std::min(path.find('.'), path.size());
  std::string_view step = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  int index = -1;
  if (const std::size_t bracket = step.find('['); bracket != std::string_view::npos) {
    std::from_chars(step.data() + bracket + 1, step.data() + step.size(), index);
    step = step.substr(0, bracket);
  }
  return {std::string(step), index};
}

}  // namespace

absl::Status ParseTextFormat(std::string_view text, google::protobuf::Message& message,
                             google::protobuf::TextFormat::ParseInfoTree* locations) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(locations);
  if (parser.ParseFromString(std::string(text), &message)) return absl::OkStatus();
  return InvalidArgument("the text is no {}: {}", message.GetDescriptor()->full_name(), error.text());
}

absl::Status AtLine(const absl::Status& status, const google::protobuf::Descriptor& message,
                    const google::protobuf::TextFormat::ParseInfoTree& locations) {
  const std::string field = FieldOf(status);
  const google::protobuf::Descriptor* descriptor = &message;
  const google::protobuf::TextFormat::ParseInfoTree* tree = &locations;
  int line = -1;
  for (std::string_view path = field; !path.empty() && descriptor != nullptr && tree != nullptr;) {
    const auto [name, index] = TakeStep(path);
    const google::protobuf::FieldDescriptor* step = descriptor->FindFieldByName(name);
    if (step == nullptr) break;
    // Single fields are at index -1, of a list the first is 0.
    const int at = step->is_repeated() ? std::max(index, 0) : -1;
    const int found = tree->GetLocation(step, at).line;
    if (found < 0) break;
    line = found;
    descriptor = step->message_type();
    tree = descriptor == nullptr ? nullptr : tree->GetTreeForNested(step, at);
  }
  if (status.ok() || line < 0) return status;
  return absl::Status(status.code(), fmt::format("line {}: {}", line + 1, MessageOf(status)));
}

}  // namespace gpueta::wire
