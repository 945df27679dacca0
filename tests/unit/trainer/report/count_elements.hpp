// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

/// Checks that tags nest, attributes are quoted and text has no bare '<' or '&'. Returns the number of
/// elements, -1 for malformed input.
inline int count_elements(const std::string& xml) {
  std::vector<std::string> open;
  int elements = 0;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const std::size_t end = xml.find(';', at);
      if (end == std::string::npos || end - at > 6) return -1;
      at = end + 1;
    } else if (xml[at] != '<') {
      ++at;
    } else {
      const std::size_t end = xml.find('>', at);
      if (end == std::string::npos) return -1;
      const std::string tag = xml.substr(at + 1, end - at - 1);
      if (tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2 != 0) return -1;
      const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
      if (tag[0] == '/') {
        if (open.empty() || "/" + open.back() != name) return -1;
        open.pop_back();
      } else {
        ++elements;
        if (tag.back() != '/') open.push_back(name);
      }
      at = end + 1;
    }
  }
  return open.empty() ? elements : -1;
}
