// SPDX-License-Identifier: Apache-2.0
// One look for each task of a picture. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::placement {

/// The colour of a task (#rrggbb), the same for every seventh. Okabe and Ito's palette ("Color Universal
/// Design", 2008, jfly.uni-koeln.de/color), made to be told apart with any kind of colour vision; its black
/// is left out.
std::string task_colour(int task);

/// Black or white, whichever is easier to read on the task's colour.
std::string text_colour_on(int task);

/// What a shape of this task is filled with: the colour, from the eighth task on with a pattern over it,
/// which changes every seventh task (28 looks in all).
std::string task_fill(int task);

/// The <pattern> elements that task_fill() refers to.
std::string pattern_definitions(int tasks);

}  // namespace muster::placement
