#include "base/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace partita {
namespace {

double one(char32_t) { return 1; }

TEST(Name, AcceptsAnyPrintableText) {
  for (const char* name : {"a", "bert-large", "<b>&\"llm\"'", "日本語", "naïve", "🚀", "a b", "\\"})
    EXPECT_EQ(name_fault(name), "") << name;
  EXPECT_EQ(name_fault(std::string(128, 'x')), "");
}

TEST(Name, RefusesWhatCannotBePrinted) {
  EXPECT_EQ(name_fault(""), "is empty");
  EXPECT_EQ(name_fault(std::string(129, 'x')), "is longer than 128 bytes");
  EXPECT_EQ(name_fault("a\nb"), "holds the control character U+000A");
  EXPECT_EQ(name_fault("\x1b[31m"), "holds the control character U+001B");
  EXPECT_EQ(name_fault("\x7f"), "holds the control character U+007F");
  EXPECT_EQ(name_fault("\u0085"), "holds the control character U+0085");
  EXPECT_EQ(name_fault("a\u202Eb"), "holds the control character U+202E");
  EXPECT_EQ(name_fault("a\u061Cb"), "holds the control character U+061C");
  EXPECT_EQ(name_fault("a\u2067b"), "holds the control character U+2067");
  EXPECT_EQ(name_fault("a\u200Fb"), "holds the control character U+200F");
  EXPECT_EQ(name_fault("a\uFEFFb"), "holds the control character U+FEFF");
  EXPECT_EQ(name_fault("\uFFFF"), "holds the control character U+FFFF");
  const char* const surrogate = "\xED\xA0\x80";
  const char* const above_the_last = "\xF4\x90\x80\x80";
  for (const char* broken : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xE3\x81", "\xF5\x80\x80\x80",
                             "\xFF", "\xC3(", surrogate, above_the_last})
    EXPECT_EQ(name_fault(broken), "is not UTF-8");
}

TEST(LowerCase, ChangesNothingBesideAscii) {
  EXPECT_EQ(lower_case("AZaz@[`{09"), "azaz@[`{09");
  EXPECT_EQ(lower_case("BERT Ä"), "bert Ä");
}

TEST(Columns, KnowsWideAndCombiningCharacters) {
  EXPECT_EQ(columns("bert"), 4);
  EXPECT_EQ(columns("日本語"), 6);
  EXPECT_EQ(columns("e\u0301"), 1);
  EXPECT_EQ(columns("🚀x"), 3);
  // By Unicode's EastAsianWidth.txt and general categories.
  for (const char* wide : {"⚡", "✅", "⭐", "🀄", "🟢", "ꥠ", "〈"})
    EXPECT_EQ(columns(wide), 2) << wide;
  for (const char* narrow : {"ä", "…", "×", "█", "─", "·", "☎", "\u00AD", "䷀"})
    EXPECT_EQ(columns(narrow), 1) << narrow;
  for (const char* none :
       {"\u0483", "\u064B", "\u0E31", "\u200B", "\u200D", "\u2060", "\u302A", "\uFE0F"})
    EXPECT_EQ(columns(none), 0) << none;
}

TEST(Fit, PadsAndCutsTheMiddle) {
  EXPECT_EQ(fit("bert", 6), "bert  ");
  EXPECT_EQ(fit("densenet121", 10), "densen…121");
  EXPECT_EQ(fit("densenet121", 11), "densenet121");
  EXPECT_EQ(fit("abc", 1), "…");
  EXPECT_EQ(fit("abc", 0), "");
  EXPECT_EQ(fit("日本語", 5), "日…語");
  EXPECT_EQ(fit("日本語", 4), "日… ");
}

RC_GTEST_PROP(Fit, AlwaysFillsItsColumns, (const std::string& any)) {
  const int width = *rc::gen::inRange(0, 40);
  RC_ASSERT(columns(fit(any, width)) == width);
}

RC_GTEST_PROP(Elided, KeepsAsMuchAsFits, (const std::string& any)) {
  const std::size_t length = printable(any).size();
  const auto width = *rc::gen::inRange<std::size_t>(1, 40);
  const std::u32string kept = printable(elided(any, static_cast<double>(width), one));
  RC_ASSERT(kept.size() == std::min(length, width));
}

RC_GTEST_PROP(Printable, IsAlwaysANameAgain, (const std::string& any)) {
  const std::string text = utf8(printable(any));
  RC_PRE(!text.empty() && text.size() <= kMaxNameBytes);
  RC_ASSERT(name_fault(text).empty());
  RC_ASSERT(utf8(printable(text)) == text);
}

TEST(XmlEscaped, LeavesNothingThatXmlWouldRead) {
  EXPECT_EQ(xml_escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(xml_escaped(std::string_view("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace partita
