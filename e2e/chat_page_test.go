package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var chatRegions = []string{"africa", "america", "asia", "europe", "oceania"}

// A chatPage is the page of examples/chat: a column for each region.
type chatPage struct{ *browserPage }

// write writes a line in the form of a region, and waits until the form is empty again.
func (p chatPage) write(region, text string) {
	p.t.Helper()
	field := "#" + region + " input[name=text]"
	p.do(chromedp.SendKeys(chromedp.CSS(field), text), chromedp.Click(chromedp.CSS("#"+region+" form button")))
	p.wait(fmt.Sprintf("the form of %s takes %q", region, text), fmt.Sprintf(`document.querySelector(%q).value === ""`, field))
}

// answer clicks a line in the column of a region, and writes an answer.
func (p chatPage) answer(region, question, text string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.Search(fmt.Sprintf(`//section[@id=%q]//li[contains(., %q)]`, region, question))))
	p.write(region, text)
}

// press presses the button that cuts a region off, or heals it, and waits until its column shows it.
func (p chatPage) press(region, button string, off bool) {
	p.t.Helper()
	selector := "#" + region + " h2 button"
	p.wait(region+" has the button "+button, fmt.Sprintf(`document.querySelector(%q)?.textContent === %q`, selector, button))
	p.do(chromedp.Click(chromedp.CSS(selector)))
	p.wait(fmt.Sprintf("after %q %s is off: %t", button, region, off),
		fmt.Sprintf(`document.getElementById(%q).classList.contains("off") === %t`, region, off))
}

// waitRows waits until the column of each region has n rows.
func (p chatPage) waitRows(n int, regions ...string) {
	p.t.Helper()
	for _, region := range regions {
		p.wait(fmt.Sprintf("%s has %d lines", region, n), fmt.Sprintf(`document.querySelectorAll("#%s li").length === %d`, region, n))
	}
}

// A chatRow is a line as a column shows it. Indent is 0 for a line that answers nothing.
type chatRow struct {
	By, Text string
	Indent   int
	Late     bool
}

// rows returns the rows of a column from top to bottom.
func (p chatPage) rows(region string) []chatRow {
	p.t.Helper()
	rows, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]chatRow](fmt.Sprintf(`[...document.querySelectorAll("#%s li")].map(row => ({
		By: row.querySelector("b").textContent, Text: row.lastChild.textContent,
		Indent: Math.round(row.getBoundingClientRect().left - row.parentElement.getBoundingClientRect().left),
		Late: row.classList.contains("late"),
	}))`, region)))
	must(p.t, err)
	return rows
}

func TestThePageOfTheChatShowsTheSameRoomInEveryColumnAfterACut(t *testing.T) {
	findBrowser(t)
	between := newWire(t, startChat(t))
	p := chatPage{openPage(t, between.url())}
	others := slices.DeleteFunc(slices.Clone(chatRegions), func(name string) bool { return name == "asia" })
	p.write("europe", "Shall we meet?")
	p.waitRows(1, chatRegions...)

	p.press("asia", "cut off", true)
	// The times of these answers are in this order: each is written when the one before is shown.
	p.answer("asia", "Shall we meet?", "Friday is fine")
	p.waitRows(2, "asia")
	p.answer("america", "Shall we meet?", "Monday is better")
	p.waitRows(2, others...)
	p.answer("asia", "Shall we meet?", "Friday at noon")
	p.waitRows(3, "asia")
	if shown := p.rows("asia"); slices.ContainsFunc(shown, func(r chatRow) bool { return r.By == "am-ann" }) {
		t.Errorf("asia is cut off, and shows %v", shown)
	}

	between.cut() // the page loses its connections, and reconnects by itself
	p.press("asia", "heal", false)
	p.waitRows(4, chatRegions...)
	for _, region := range chatRegions {
		want := []string{"eu-ann: Shall we meet?", "> as-ann: Friday is fine", "> am-ann: Monday is better", "> as-ann: Friday at noon"}
		if region == "asia" {
			want[2] += " *"
		} else {
			want[1] += " *"
		}
		if got := column(p.rows(region)); !slices.Equal(got, want) {
			t.Errorf("%s shows %q, want %q", region, got, want)
		}
	}
}

// column returns rows as text: answers after ">", and a star at lines that arrived late.
func column(rows []chatRow) (list []string) {
	for _, r := range rows {
		text := r.By + ": " + r.Text
		if r.Indent > 0 {
			text = "> " + text
		}
		if r.Late {
			text += " *"
		}
		list = append(list, text)
	}
	return list
}
