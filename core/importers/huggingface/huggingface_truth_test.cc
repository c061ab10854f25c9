// Parameters of real configs against what transformers counted of its own
// classes: see tests/data/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/base/whole_file.h"
#include "core/importers/huggingface/huggingface_importer.h"
#include "core/importers/huggingface/token_flops.h"

namespace gpueta {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kConfigs[] = "tests/data/configs/";

struct Truth {
  std::string name;
  std::string json;
  std::int64_t parameters = 0;
  std::int64_t active = 0;
  std::int64_t embedding = 0;  // parameters of tables that are looked up
  bool tied_head = false;
  friend void PrintTo(const Truth& truth, std::ostream* out) { *out << truth.name; }
};

// Each model twice: every field written out, and only those set by hand.
std::vector<Truth> PublishedTruths() {
  std::ifstream in(std::string(kConfigs) + "truth.csv");
  absl::StatusOr<CsvReader> csv = CsvReader::Open(in, "truth.csv");
  std::vector<Truth> truths;
  while (csv.ok() && csv->Next()) {
    std::map<std::string, std::string> cells;
    for (std::size_t i = 0; i < csv->columns().size(); ++i) cells[csv->columns()[i]] = csv->cells()[i];
    for (const std::string file : {"config", "config_min"}) {
      const absl::StatusOr<std::string> json = ReadWholeFile(kConfigs + cells["model"] + "/" + file + ".json");
      truths.push_back({cells["model"] + " " + file, json.value_or(""), std::stoll(cells["params_total"]),
                        std::stoll(cells["params_active_per_token"]), std::stoll(cells["params_embedding_modules"]),
                        cells["lm_head_tied"] == "True"});
    }
  }
  return truths;
}

std::vector<Truth> VariantTruths() {
  std::vector<Truth> truths;
  const absl::StatusOr<std::string> text = ReadWholeFile(std::string(kConfigs) + "variants.json");
  if (!text.ok()) return truths;
  const nlohmann::json variants = nlohmann::json::parse(*text);
  for (const auto& [name, variant] : variants.items()) {
    truths.push_back({name, variant["config"].dump(), variant["parameters"].get<std::int64_t>(), 0, 0, false});
  }
  return truths;
}

std::string TestName(const ::testing::TestParamInfo<Truth>& param) {
  std::string name = param.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

TEST(HuggingFaceTruthTableTest, HoldsAllConfigs) {
  EXPECT_THAT(PublishedTruths(), SizeIs(40));
  EXPECT_GT(VariantTruths().size(), 50U);
}

class HuggingFaceTruthTest : public ::testing::TestWithParam<Truth> {};

TEST_P(HuggingFaceTruthTest, ParametersAreThoseOfTransformers) {
  const Truth& truth = GetParam();
  const absl::StatusOr<Graph> graph = ImportHuggingFace(truth.json, truth.name);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->warnings, IsEmpty());
  EXPECT_EQ(graph->parameters, truth.parameters);
  if (truth.active > 0) {
    EXPECT_EQ(graph->active_parameters, truth.active);
  }
}

// What is computed does not depend on how it is written out or cached.
TEST_P(HuggingFaceTruthTest, ParametersAreTheSameHoweverItRuns) {
  const Truth& truth = GetParam();
  for (const bool op_by_op : {false, true}) {
    for (const Attention::Phase phase : {Attention::Phase::kPrefill, Attention::Phase::kDecode}) {
      const absl::StatusOr<Graph> graph = ImportHuggingFace(
          truth.json, truth.name, {.phase = phase, .op_by_op = op_by_op, .written_out_attention = op_by_op});
      if (phase == Attention::Phase::kDecode && absl::IsInvalidArgument(graph.status())) continue;  // an encoder
      ASSERT_TRUE(graph.ok()) << graph.status();
      EXPECT_EQ(graph->parameters, truth.parameters);
    }
  }
}

// A token meets every active parameter once, but for those that are looked up:
// what is left beside attention, which grows with the context.
TEST_P(HuggingFaceTruthTest, FlopsOfATokenAreThoseOfItsParameters) {
  const Truth& truth = GetParam();
  if (truth.active == 0) return;  // tables of the variants are not known apart
  const nlohmann::json config = nlohmann::json::parse(truth.json);
  const auto hidden = config.value("hidden_size", config.value("n_embd", std::int64_t{0}));
  const auto vocabulary = config.value("vocab_size", std::int64_t{50257});
  const double head = truth.tied_head ? static_cast<double>(vocabulary) * static_cast<double>(hidden) : 0;
  const double expected = 2 * (static_cast<double>(truth.active - truth.embedding) + head);
  // Biases and norms are no products; a pooler sees one token.
  constexpr double kMost = 0.005;
  // Below every sliding window.
  const auto at = [&](std::int64_t context) { return FlopsPerToken(truth.json, context).value(); };
  const TokenFlops a = at(32), b = at(64), c = at(96);
  ASSERT_TRUE(a.prefill && b.prefill && c.prefill);
  // Of f(s) = constant + each·s + attention·s², the middle one.
  const double f1 = 32 * *a.prefill, f2 = 64 * *b.prefill, f3 = 96 * *c.prefill;
  const double attention = (f3 - 2 * f2 + f1) / (2 * 32.0 * 32.0);
  const double each = (f2 - f1) / 32 - attention * 96;
  EXPECT_GT(attention, 0);
  EXPECT_NEAR(each / expected, 1, kMost) << each;
  EXPECT_EQ(a.decode.has_value(), truth.name.substr(0, 4) != "bert");
  if (!a.decode.has_value()) return;
  const double slope = (*c.decode - *a.decode) / 64;
  EXPECT_GT(slope, 0);
  EXPECT_NEAR((*b.decode - *a.decode) / 32, slope, 1e-6 * slope);
  EXPECT_NEAR((*a.decode - 32 * slope) / expected, 1, kMost);
}

INSTANTIATE_TEST_SUITE_P(Published, HuggingFaceTruthTest, ::testing::ValuesIn(PublishedTruths()), TestName);
INSTANTIATE_TEST_SUITE_P(Variants, HuggingFaceTruthTest, ::testing::ValuesIn(VariantTruths()), TestName);

}  // namespace
}  // namespace gpueta
