#include "core/wire/manifest_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A kernel that is as small as can be, with one line replaced.
std::string Text(std::string_view line, std::string_view with) {
  std::string text = R"~(name: "scale"
file: "scale.ptx"
entry: "scale"
dtype: DTYPE_FP32
dims { name: "n" low: 1 high: 100 }
definitions { name: "blocks" value: "ceildiv(n, 256)" }
grid { x: "blocks" }
block { x: "256" }
arguments { name: "x" buffer { bytes: "4*n" } }
arguments { name: "n" int32: "n" }
flops: "n"
bytes: "8*n"
)~";
  if (!line.empty()) {
    const std::size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    text.replace(at, line.size(), with);
  }
  return text;
}

TEST(ManifestCodecTest, ReadsWhatIsGivenAndDefaultsTheRest) {
  const absl::StatusOr<KernelManifest> manifest = ReadManifestText(Text("", ""));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->name, "scale");
  EXPECT_EQ(manifest->dtype, DType::kFp32);
  ASSERT_EQ(manifest->dims.size(), 1u);
  EXPECT_EQ(manifest->dims[0].multiple_of, 1);
  EXPECT_EQ(manifest->grid.y, SymInt(1));
  EXPECT_EQ(manifest->shared_bytes, SymInt(0));
  ASSERT_EQ(manifest->arguments.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<BufferArgument>(manifest->arguments[0].value));
  EXPECT_TRUE(std::holds_alternative<Int32Argument>(manifest->arguments[1].value));
}

struct Mistake {
  const char* name;
  const char* line;
  const char* with;
  const char* error;  // how the message begins
};

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsReportedWithItsLineAndField) {
  const absl::StatusOr<KernelManifest> manifest = ReadManifestText(Text(GetParam().line, GetParam().with));
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(manifest.status()), StartsWith(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    ::testing::Values(
        Mistake{"UnknownField", "flops: \"n\"", "flopz: \"n\"",
                "the text is no gpueta.v1.KernelManifest: line 11, column 6: "},
        Mistake{"NotTextFormat", "name: \"scale\"", "{\"name\": 3}", "the text is no gpueta.v1.KernelManifest: line 1"},
        Mistake{"NoName", "name: \"scale\"\n", "", "name: is empty"},
        Mistake{"NameOfOtherLetters", "\"scale\"", "\"scale, v2\"", "line 1: name: may hold letters"},
        Mistake{"NoType", "dtype: DTYPE_FP32\n", "", "dtype: is not set; give a type such as DTYPE_BF16"},
        Mistake{"FileOutside", "scale.ptx", "../scale.ptx",
                "line 2: file: \"../scale.ptx\" is outside the manifest's folder"},
        Mistake{"FileAbsolute", "scale.ptx", "/etc/passwd", "line 2: file: "},
        Mistake{"NoEntry", "entry: \"scale\"\n", "", "entry: is empty; name the kernel in the file"},
        Mistake{"ArgumentsWithoutFile", "file: \"scale.ptx\"\nentry: \"scale\"\n", "",
                "file: is empty, but there are arguments"},
        Mistake{"EmptyRange", "low: 1 high: 100", "low: 100 high: 1", "line 5: dims[0].high: there is no multiple"},
        Mistake{"NoRange", "low: 1 high: 100", "", "line 5: dims[0].low: is not between 1 and 2^40"},
        Mistake{"NoMultipleInRange", "low: 1 high: 100", "low: 65 high: 100 multiple_of: 64",
                "line 5: dims[0].high: there is no multiple of 64 from 65 to 100"},
        Mistake{"ValueOfAnotherMultiple", "low: 1 high: 100", "values: [64, 65] multiple_of: 64",
                "line 5: dims[0].values[1]: is no multiple of 64"},
        Mistake{"DimThatIsNoIdentifier", "name: \"n\" low", "name: \"2n\" low", "line 5: dims[0].name: \"2n\" is no"},
        Mistake{"DefinitionNamedAsADim", "name: \"blocks\"", "name: \"n\"",
                "line 6: definitions[0].name: \"n\" is used twice"},
        Mistake{"ExpressionThatDoesNotParse", "ceildiv(n, 256)", "ceildiv(n, ",
                "line 6: definitions[0].value: \"ceildiv(n, \": "},
        Mistake{"UnknownFunction", "ceildiv(n, 256)", "cdiv(n, 256)",
                "line 6: definitions[0].value: \"cdiv(n, 256)\": there is no function cdiv of 2 arguments"},
        Mistake{"DefinitionOfItself", "ceildiv(n, 256)", "blocks + 1",
                "line 6: definitions[0].value: \"blocks\" is neither a dim nor a definition before this"},
        Mistake{"SymbolThatIsNone", "x: \"blocks\"", "x: \"block\"", "line 7: grid.x: \"block\" is neither a dim nor"},
        Mistake{"ExpressionOutOfBounds", "x: \"blocks\"", "x: \"n**16*n\"", "line 7: grid.x: is too large"},
        Mistake{"ArgumentWithoutValue", "int32: \"n\"", "", "line 10: arguments[1]: has no value; give one of buffer"},
        Mistake{"ArgumentOfNoExpression", "int32: \"n\"", "int32: \"\"", "line 10: arguments[1].int32: is empty"},
        Mistake{"ArgumentOfNoNumber", "int32: \"n\"", "float32: nan", "line 10: arguments[1].float32: is not a finite"},
        Mistake{"ZerosOfNoSize", "int32: \"n\"", "zero_bytes: 0", "line 10: arguments[1].zero_bytes: is not between 1"},
        Mistake{"BufferWithoutSize", "bytes: \"4*n\"", "", "line 9: arguments[0].buffer.bytes: is empty"},
        Mistake{"NoFlops", "flops: \"n\"\n", "", "flops: is missing; give an expression, 0 if there are none"},
        Mistake{"NoBytes", "bytes: \"8*n\"\n", "", "bytes: is missing"},
        Mistake{"ComputesInAnotherType", "flops: \"n\"",
                "computes { kernel { dtype: DTYPE_BF16 vector { op: \"mul\" rows: 1 cols: 1 } } }",
                "line 11: computes.kernel.dtype: is bf16, but the manifest's is fp32"},
        Mistake{
            "ComputesWithoutADim", "flops: \"n\"",
            "computes { kernel { dtype: DTYPE_FP32 gemm { m: 1 n: 1 } } symbolic_dims { key: \"m\" value: \"n\" } }",
            "line 11: computes.kernel.gemm.k: is 0, must be at least 1"},
        Mistake{"ComputesADimThatIsNone", "flops: \"n\"",
                "computes { kernel { dtype: DTYPE_FP32 gemm {} } symbolic_dims { key: \"z\" value: \"n\" } }",
                "line 11: computes.symbolic_dims.z: gemm has no such dim"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(ManifestCodecTest, FilesThatAreMissingOrWrongAreNamed) {
  EXPECT_THAT(MessageOf(ReadManifestFile("none.manifest").status()), StartsWith("none.manifest: "));
  EXPECT_EQ(ReadManifestFile("none.manifest").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(ReadManifestFile("examples/kernels/tiled_gemm.ptx").status()),
              StartsWith("examples/kernels/tiled_gemm.ptx: the text is no gpueta.v1.KernelManifest: line 1, column "));
}

TEST(ManifestCodecTest, TextOfMoreThanAMegabyteIsRefused) {
  EXPECT_THAT(MessageOf(ReadManifestText(std::string(2 << 20, ' ')).status()), HasSubstr("larger than"));
}

}  // namespace
}  // namespace gpueta::wire
