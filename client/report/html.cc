#include "client/report/html.h"

#include <fmt/format.h>

#include "core/base/printable.h"

namespace gpueta::report {
namespace {

// Colours that differ in brightness too (Okabe & Ito), a lighter set on dark.
// Paper is white, and a section's picture stays on one sheet.
constexpr std::string_view kStyle = R"(
:root{--bg:#fff;--fg:#1b1f24;--muted:#5d6670;--line:#d5dae0;
 --c0:#0072b2;--c1:#009e73;--c2:#d55e00;--c3:#8d5aa5;--c4:#a67c00;--c5:#444;--c6:#b8336a}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e7eb;--muted:#9aa4af;--line:#343b43;
 --c0:#56b4e9;--c1:#3ccf9f;--c2:#ff8f4d;--c3:#cc99e0;--c4:#f0c442;--c5:#bbb;--c6:#ff7eb0}}
@media print{:root{--bg:#fff;--fg:#000;--muted:#444;--line:#bbb;
 --c0:#0072b2;--c1:#009e73;--c2:#d55e00;--c3:#8d5aa5;--c4:#a67c00;--c5:#444;--c6:#b8336a}
 svg,tr{break-inside:avoid}h2,h3{break-after:avoid}thead{display:table-header-group}body{font-size:11px;margin:0;max-width:none}
 .wide{overflow:visible}table{font-size:.8rem}th,td{padding:.15rem .35rem}svg{max-width:36rem}svg.full{max-width:none}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2.2rem}h3{font-size:1rem;margin-top:1.6rem}
p{max-width:52rem}.muted{color:var(--muted)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.87rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;white-space:pre-line}
td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
svg{width:100%;max-width:44rem;height:auto;display:block;margin:.6rem 0}svg.full{max-width:none}
svg text{fill:var(--muted);font:12px system-ui,sans-serif}
svg .grid{stroke:var(--line);fill:none}svg .frame{stroke:var(--muted);fill:none}
svg .ideal{stroke:var(--muted);stroke-dasharray:5 4;fill:none}
svg .dots{stroke-width:3.2;stroke-linecap:round;stroke-opacity:.6;fill:none}svg .line{stroke-width:1.8;fill:none}
svg circle{fill:var(--bg);stroke-width:2}svg rect{stroke:none}
)";

std::string Colours() {
  std::string css;
  for (int c = 0; c < kColours; ++c) {
    css +=
        fmt::format("svg .c{0}{{stroke:var(--c{0})}}svg text.c{0},svg rect.c{0}{{fill:var(--c{0});stroke:none}}\n", c);
  }
  return css;
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : Printable(text, "\n\t")) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string Table(const std::vector<std::string>& header, const std::vector<std::vector<Cell>>& rows) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& name : header) out += "<th>" + Escaped(name) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : rows) {
    out += "<tr>";
    for (const Cell& cell : row) {
      out += fmt::format("<td{}{}{}>{}</td>", cell.number ? " class=\"number\"" : "",
                         cell.title.empty() ? "" : fmt::format(" title=\"{}\"", Escaped(cell.title)),
                         cell.colour < 0 ? "" : fmt::format(" style=\"color:var(--c{})\"", cell.colour),
                         Escaped(cell.text));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string Section(std::string_view id, std::string_view heading, std::string_view body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", Escaped(id), Escaped(heading), body);
}

std::string Paragraph(std::string_view text) { return "<p>" + Escaped(text) + "</p>\n"; }

std::string Subsection(std::string_view heading, std::string_view body) {
  return fmt::format("<h3>{}</h3>\n{}", Escaped(heading), body);
}

std::string Page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width\"/><meta name=\"color-scheme\" content=\"light dark\"/>"
      "<title>{0}</title><style>{1}{2}</style></head>\n<body><h1>{0}</h1>\n{3}</body></html>\n",
      Escaped(title), kStyle, Colours(), body);
}

}  // namespace gpueta::report
