// Pages of one file: no scripts, nothing fetched, light and dark by what the
// reader's system prefers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpueta::report {

// The page's colours are classes c0 to c6.
inline constexpr int kColours = 7;

// Text as it may stand in HTML and SVG, attributes included.
std::string Escaped(std::string_view text);

struct Cell {
  std::string text;  // escaped when rendered
  bool number = false;
  std::string title;  // shown when pointed at; empty: none
  int colour = -1;    // of its text, below kColours; -1: the page's
};

// A table; texts are escaped here.
std::string Table(const std::vector<std::string>& header, const std::vector<std::vector<Cell>>& rows);

// A section with a heading and an id to link to. `body` is HTML.
std::string Section(std::string_view id, std::string_view heading, std::string_view body);

// A paragraph of text.
std::string Paragraph(std::string_view text);

// A part of a section. `body` is HTML.
std::string Subsection(std::string_view heading, std::string_view body);

// The whole page, well-formed XML too.
std::string Page(std::string_view title, std::string_view body);

}  // namespace gpueta::report
