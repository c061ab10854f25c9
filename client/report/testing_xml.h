// Is a page well-formed XML? For tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpueta::report {

// "" if tags are closed in the order they were opened, attributes are quoted
// and entities known; else what is wrong and where. Knows what our pages use: no
// comments, no CDATA.
inline std::string WhatIsMalformed(std::string_view xml) {
  const auto at = [&](std::size_t i) { return " near: " + std::string(xml.substr(i > 20 ? i - 20 : 0, 60)); };
  std::vector<std::string> open;
  std::size_t i = xml.starts_with("<!DOCTYPE html>") ? 15 : 0;
  while (i < xml.size()) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\n' && c != '\t') return "control character" + at(i);
    if (c == '>') return "stray >" + at(i);
    if (c == '&') {
      const std::size_t end = xml.find(';', i);
      const std::string_view name = xml.substr(i + 1, end == std::string_view::npos ? 0 : end - i - 1);
      if (name != "lt" && name != "gt" && name != "amp" && name != "quot" && name != "#39") return "entity" + at(i);
      i = end + 1;
      continue;
    }
    if (c != '<') {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    char quote = 0;
    for (; end < xml.size() && (quote != 0 || xml[end] != '>'); ++end) {
      if (xml[end] == '<') return "< in a tag" + at(i);
      if (xml[end] == '"') quote = quote == 0 ? '"' : static_cast<char>(0);
    }
    if (end == xml.size()) return "tag without end" + at(i);
    const std::string_view tag = xml.substr(i + 1, end - i - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n/", 1)));
    if (tag.starts_with("/")) {
      if (open.empty() || "/" + open.back() != tag) return "closes what is not open" + at(i);
      open.pop_back();
    } else {
      std::size_t quotes = 0;
      std::size_t equals = 0;
      bool inside = false;
      for (const char t : tag) {
        if (t == '"') inside = !inside, ++quotes;
        if (t == '=' && !inside) ++equals;
      }
      if (quotes != 2 * equals) return "attribute" + at(i);
      if (!tag.ends_with("/")) open.push_back(name);
    }
    i = end + 1;
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace gpueta::report
