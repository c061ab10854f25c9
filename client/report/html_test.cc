#include "client/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpueta::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlTest, TextsCannotBecomeMarkup) {
  EXPECT_EQ(Escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  const std::string evil = "<script>\"";
  for (const std::string& html :
       {Table({evil}, {{{evil, true, evil}}}), Section(evil, evil, ""), Paragraph(evil), Page(evil, "")}) {
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  }
}

TEST(HtmlTest, PagesFetchNothingAndKnowTheDark) {
  const std::string page = Page("title", "<p>body</p>");
  EXPECT_THAT(page, HasSubstr("<p>body</p>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  for (const char* fetches : {"http", "src=", "href=", "url(", "@import", "<script"}) {
    EXPECT_THAT(page, Not(HasSubstr(fetches)));
  }
}

}  // namespace
}  // namespace gpueta::report
