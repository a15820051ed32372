package room

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/clock"
)

// rows returns a screen as text: the depth, the id, and an asterisk for late lines.
func rows(v *View) string {
	var out []string
	for _, r := range v.Lines() {
		out = append(out, fmt.Sprint(r.Depth, r.ID, strings.Repeat("*", map[bool]int{true: 1}[r.Late])))
	}
	return strings.Join(out, " ")
}

func at(id string, n int, answers ...string) Heard {
	return Heard{Line: Line{ID: id, By: id, Number: 1, At: clock.Hybrid(n), Answers: answers}}
}

func TestLinesAreShownBelowTheOneTheyAnswerSortedByTimeAndPerson(t *testing.T) {
	v := NewView()
	for _, h := range []Heard{at("a", 1), at("b", 5), at("c", 3, "a"), at("d", 2, "a"), at("e", 3, "a"), at("f", 4, "d"), at("g", 3)} {
		if !v.Add(h) {
			t.Errorf("%s answers a line that is not there", h.ID)
		}
	}
	if got, want := rows(v), "0a 1d* 2f 1c 1e 0g* 0b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if h, ok := v.Find("f"); !ok || h.Answers[0] != "d" {
		t.Errorf("found %+v, %v", h, ok)
	}
}

func TestALineThatAnswersAnUnknownOneIsShownAtTheTop(t *testing.T) {
	v := NewView()
	if v.Add(at("b", 2, "a")) || rows(v) != "0b" {
		t.Error(rows(v))
	}
}

func TestTwoScreensShowOneOrderWhateverTheOrderOfArrival(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	list := []Heard{at("0", 1)}
	for i := 1; i < 200; i++ {
		list = append(list, at(fmt.Sprint(i), 1+rnd.IntN(50), fmt.Sprint(rnd.IntN(i))))
	}
	var want []string
	for range 20 {
		v, rest := NewView(), slices.Clone(list)
		for len(rest) > 0 { // any line whose parent is there
			i := rnd.IntN(len(rest))
			if len(rest[i].Answers) > 0 {
				if _, ok := v.Find(rest[i].Answers[0]); !ok {
					continue
				}
			}
			v.Add(rest[i])
			rest = slices.Delete(rest, i, i+1)
		}
		got := shown(v)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
}

func TestADiagramIsXMLAndHasAnArrowToEachOtherRegion(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l := at("a", 1).Line
	l.Region, l.Text = "asia", "<b>&"
	var out bytes.Buffer
	err := Diagram(&out, []string{"africa", "asia"}, []Trace{{Line: l, Written: noon, Shown: map[string]time.Time{"asia": noon, "africa": noon.Add(time.Second)}}})
	if err != nil || strings.Count(out.String(), "marker-end") != 1 || strings.Count(out.String(), "<circle") != 1 {
		t.Errorf("%v: %s", err, &out)
	}
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
