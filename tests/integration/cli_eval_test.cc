// gpueta eval: figures, how sure they are, comparisons, its page.
#include <filesystem>
#include <sstream>

#include "core/base/errors.h"
#include "tests/integration/cli_fixture.h"

namespace gpueta::testing_util {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Additions on a T4 of 64·n rows, two measurements each.
std::string AdditionsOn(const std::string& device, int shapes, double us_per_row_block) {
  std::string rows;
  for (int n = 1; n <= shapes; ++n) {
    for (const double noise : {0.98, 1.02}) {
      rows += fmt::format("{},test,kernel,fp32,add,{},1024,2,,,,,,,{}\n", device, 64 * n,
                          noise * (3 + us_per_row_block * n));
    }
  }
  return rows;
}

TEST_F(CliTest, EvalSaysWhenAProfileDoesNotAnswer) {
  std::filesystem::create_directory(Path("none"));
  const Outcome judged = Run({"--profiles", Path("none"), "eval", "--measurements",
                              Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8))});
  EXPECT_EQ(judged.status, 0);
  EXPECT_THAT(judged.standard_output, HasSubstr("from the data sheet alone: 80"));
}

TEST_F(CliTest, EvalLeavesGradientsOut) {
  const std::string header =
      "device,source,timing,dtype,batch,in_channels,height,width,out_channels,kernel_h,kernel_w,kernel,latency_us\n";
  const std::string gradient = "t4,test,kernel,fp16,8,64,28,28,64,3,3,cudnn_wgrad,90\n";
  const std::string both = Write("both.csv", header + "t4,test,kernel,fp16,8,64,28,28,64,3,3,,30\n" + gradient);
  EXPECT_EQ(RunJson({"eval", "--measurements", both})["n"], 1);
  EXPECT_THAT(Run({"eval", "--measurements", both}).standard_output, HasSubstr("line 3: conv2d fp16 wgrad"));
  const Outcome none = Run({"eval", "--measurements", Write("gradients.csv", header + gradient)});
  EXPECT_NE(none.status, 0);
  EXPECT_THAT(none.standard_error, HasSubstr("gradient"));
}

TEST_F(CliTest, EvalSaysHowSureItsFiguresAre) {
  const std::string rows = Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const json all = RunJson({"eval", "--measurements", rows});
  EXPECT_EQ(all["n"], 80);
  EXPECT_EQ(all["shapes"], 40);
  for (const char* figure : {"mape", "median", "ape_p90", "bias", "below_p90", "below_p99"}) {
    const json& interval = all[std::string(figure) + "_ci95"];
    ASSERT_EQ(interval.size(), 2U) << figure;
    EXPECT_LE(interval[0].get<double>(), all[figure].get<double>()) << figure;
    EXPECT_GE(interval[1].get<double>(), all[figure].get<double>()) << figure;
  }
  EXPECT_TRUE(all["ape_p99_ci95"].is_null());  // 40 shapes do not bound it
  EXPECT_EQ(all, RunJson({"eval", "--measurements", rows}));
  EXPECT_NE(all["mape_ci95"], RunJson({"eval", "--measurements", rows, "--seed", "1"})["mape_ci95"]);
  EXPECT_THAT(Run({"eval", "--measurements", rows}).standard_output, HasSubstr("±"));
  const std::string one = Write("one.csv", kVectorHeader + AdditionsOn("t4", 1, 0.8));
  EXPECT_TRUE(RunJson({"eval", "--measurements", one})["mape_ci95"].is_null());
  EXPECT_THAT(Run({"eval", "--measurements", one}).standard_output, Not(HasSubstr("±")));
}

TEST_F(CliTest, EvalGroupsByEveryColumn) {
  const std::string vectors = Write("v.csv", kVectorHeader + AdditionsOn("t4", 12, 8));
  const std::string products = Write("g.csv",
                                     "device,dtype,layer,batch,m,n,k,kernel,grid_x,latency_us\n"
                                     "t4,fp16,gemm,1,64,1024,64,tiled,8,9\nt4,fp16,gemm,1,64,512,64,tiled,8,9\n"
                                     "t4,fp16,gemm,1,64,64,64,,,9\n");
  std::vector<std::string> columns = {"op", "label", "table", "provenance", "estimator", "bound", "regime", "size"};
  std::istringstream header(kVectorHeader.substr(0, kVectorHeader.size() - 1));
  for (std::string column; std::getline(header, column, ',');) columns.push_back(column);
  for (const std::string& column : columns) {
    std::int64_t rows = 0;
    for (const json& group : RunJson({"eval", "--measurements", vectors, "--by", column})) {
      EXPECT_TRUE(group[column].is_string()) << column;
      rows += group["n"].get<std::int64_t>();
    }
    EXPECT_EQ(rows, 24) << column;
  }
  // Numbers sort as numbers; what some rows lack is empty; n is a dim too.
  const json by_dim = RunJson({"eval", "--measurements", vectors, products, "--by", "op,rows"});
  ASSERT_EQ(by_dim.size(), 13U);
  EXPECT_EQ(by_dim[0]["op"], "gemm");
  EXPECT_EQ(by_dim[0]["rows"], "");
  EXPECT_EQ(by_dim[1]["rows"], "64");
  EXPECT_EQ(by_dim[12]["rows"], "768");
  const json by_n = RunJson({"eval", "--measurements", products, "--by", "n"});
  ASSERT_EQ(by_n.size(), 3U);
  EXPECT_EQ(by_n[0]["by_n"], "64");
  EXPECT_EQ(by_n[2]["by_n"], "1024");
  EXPECT_EQ(by_n[2]["n"], 1);
  const json by_size = RunJson({"eval", "--measurements", vectors, "--by", "size"});
  ASSERT_EQ(by_size.size(), 2U);
  EXPECT_EQ(by_size[0]["size"], "10 µs to 100 µs");
  ExpectOneLine(Run({"eval", "--measurements", vectors, "--by", "seq_len"}),
                AllOf(HasSubstr("seq_len"), HasSubstr("operands"), HasSubstr("regime")));
}

TEST_F(CliTest, EvalOfNothingIsAnErrorInTheSameShape) {
  const std::string none = Write("none.csv", kVectorHeader);
  for (const std::vector<std::string>& by : {std::vector<std::string>{}, {"--by", "device"}}) {
    std::vector<std::string> arguments = {"eval", "--measurements", none};
    arguments.insert(arguments.end(), by.begin(), by.end());
    ExpectOneLine(Run(arguments), AllOf(HasSubstr("none.csv"), HasSubstr("no measurements")));
    arguments.insert(arguments.begin(), "--json");
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, kFailed);
    EXPECT_THAT(outcome.standard_error, HasSubstr("no measurements"));
    const json answer = json::parse(outcome.standard_output);
    if (by.empty()) {
      EXPECT_EQ(answer["n"], 0);
    } else {
      EXPECT_EQ(answer, json::array());
    }
  }
}

// One profile fitted to the rows, one to rows of 1.3 times the time.
TEST_F(CliTest, EvalComparesTwoProfilesOnTheSameRows) {
  const std::string rows = Write("rows.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const std::string slow = Write("slow.csv", kVectorHeader + AdditionsOn("t4", 40, 1.04));
  for (const auto& [measured, profile] : {std::pair(rows, "good.profile"), {slow, "slow.profile"}}) {
    ASSERT_EQ(Run({"fit", "--device", "t4", "--measurements", measured, "--out", Path(profile)}).status, 0);
  }
  const auto compare = [&](const std::string& profile, const std::string& against) {
    return RunJson({"eval", "--profile", Path(profile), "--against", Path(against), "--measurements", rows});
  };
  const json better = compare("good.profile", "slow.profile")["groups"][0];
  EXPECT_GT(better["mape_difference"].get<double>(), 0.1);
  EXPECT_EQ(better["difference_shown"], true);
  EXPECT_GT(better["nearer"]["profile"].get<int>(), 60);
  const json worse = compare("slow.profile", "good.profile")["groups"][0];
  EXPECT_EQ(worse["mape_difference"].get<double>(), -better["mape_difference"].get<double>());
  const json same = compare("good.profile", "good.profile")["groups"][0];
  EXPECT_EQ(same["difference_shown"], false);
  EXPECT_EQ(same["nearer"]["equal"], 80);
  const std::vector<std::string> text = {"eval",  "--profile", Path("good.profile"), "--measurements",
                                         rows,    "--against", Path("good.profile"), "--by",
                                         "device"};
  EXPECT_THAT(Run(text).standard_output, HasSubstr("no difference shown"));
}

TEST_F(CliTest, EvalComparesOnlyRowsThatBothCanAnswer) {
  const std::string mine = Write("mine.csv", kVectorHeader + AdditionsOn("mine", 40, 0.8));
  const std::string spec = Write("s.csv", "slug,sm_count,mem_bandwidth_gb_s,fp32_tflops\nmine,100,1000,10\n");
  const std::string profile = Path("mine.profile");
  ASSERT_EQ(Run({"fit", "--device", "mine", "--spec", spec, "--measurements", mine, "--out", profile}).status, 0);
  const std::string t4 = GPUETA_SOURCE_DIR "/profiles/t4.profile";
  const std::string both = Write("both.csv", kVectorHeader + AdditionsOn("mine", 10, 0.8) + AdditionsOn("t4", 40, 0.8));
  const std::vector<std::string> arguments = {"eval", "--profile",      t4,  profile, "--against",
                                              t4,     "--measurements", both};
  const json answer = RunJson(arguments);
  EXPECT_EQ(answer["groups"][0]["n"], 80);
  ASSERT_EQ(answer["unanswered"].size(), 1U);
  EXPECT_EQ(answer["unanswered"][0]["by"], "against");
  EXPECT_EQ(answer["unanswered"][0]["rows"], 20);
  EXPECT_THAT(Run(arguments).standard_output,
              AllOf(HasSubstr("cannot answer them: 20;"), HasSubstr("--against"), HasSubstr("mine")));
  ExpectOneLine(Run({"eval", "--profile", profile, "--against", t4, "--measurements", mine}),
                AllOf(HasSubstr("--against"), HasSubstr("80 of 80"), HasSubstr("mine")));
  const Outcome none = Run({"--json", "eval", "--profile", profile, "--against", t4, "--measurements", mine});
  EXPECT_EQ(none.status, kFailed);
  const json empty = json::parse(none.standard_output);
  EXPECT_EQ(empty["unanswered"][0]["rows"], 80);
  EXPECT_EQ(empty["groups"][0]["n"], 0);
  for (const auto& [key, value] : answer["groups"][0].items()) EXPECT_TRUE(empty["groups"][0].contains(key)) << key;
}

TEST_F(CliTest, EvalWritesAReportThatStandsAlone) {
  const std::string rows = Write("a<b>.csv", kVectorHeader + AdditionsOn("t4", 40, 0.8));
  const std::string near = Write("near.csv", kVectorHeader + AdditionsOn("t4", 20, 0.8));
  const std::vector<std::string> arguments = {"eval", "--measurements", rows,          "--measured-with",
                                              near,   "--html",         Path("r.html")};
  ASSERT_EQ(Run(arguments).status, 0);
  const std::string page = ReadFile(Path("r.html"));
  for (const char* section : {"summary", "scatter", "size", "coverage", "worst"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("<section id=\"{}\">", section)));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("a&lt;b&gt;.csv"), HasSubstr("<svg"), HasSubstr("octaves away"),
                          HasSubstr("% memory"), HasSubstr("table vector fp32")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<b>")), Not(HasSubstr("<script")), Not(HasSubstr("http"))));
  ASSERT_EQ(Run(arguments).status, 0);
  EXPECT_EQ(ReadFile(Path("r.html")), page);
  ExpectOneLine(Run({"eval", "--measurements", rows, "--html", "/proc/r.html"}), HasSubstr("/proc/r.html"));
  EXPECT_EQ(Run({"eval", "--measurements", rows, "--measured-with", near}).status, kUsage);
}

}  // namespace
}  // namespace gpueta::testing_util
