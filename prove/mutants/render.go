package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A rendered file has all mutants of a file in it.
type rendered struct {
	text  string
	spans []span // where each mutant is in the text
}

type span struct {
	mutant   *mutant
	from, to int
}

// An insertion puts the beginning or the end of a mutant into a file.
type insertion struct {
	at    int // the offset in the source
	end   bool
	order int // of two that begin at one place, the outer mutant has the lower order
	text  string
	of    *mutant
}

// render inserts the mutants that compile into a file. Lines stay where they are.
func render(source []byte, mutants []*mutant) rendered {
	outer := slices.Clone(mutants)
	// A mutant that encloses another one comes first. Of two for one text, the order does not
	// matter.
	slices.SortStableFunc(outer, func(a, b *mutant) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var all []insertion
	for i, m := range outer {
		if !m.dropped {
			number := func(text string) string { return strings.ReplaceAll(text, "\x00", strconv.Itoa(m.number)) }
			all = append(all, insertion{m.from, false, i, number(m.prefix), m}, insertion{m.to, true, -i, number(m.suffix), m})
		}
	}
	slices.SortStableFunc(all, func(a, b insertion) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		if a.end != b.end { // what ends here ends before anything begins
			if a.end {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.order, b.order)
	})
	var out rendered
	var b strings.Builder
	begun, last := map[*mutant]int{}, 0
	for _, x := range all {
		b.Write(source[last:x.at])
		last = x.at
		if !x.end {
			begun[x.of] = b.Len()
		}
		b.WriteString(x.text)
		if x.end {
			out.spans = append(out.spans, span{x.of, begun[x.of], b.Len()})
		}
	}
	b.Write(source[last:])
	out.text = b.String()
	return out
}

// innermost returns the mutant at a line and column of the rendered text, or nil.
func (r *rendered) innermost(line, column int) *mutant {
	at := 0
	for range line - 1 {
		at += strings.IndexByte(r.text[at:], '\n') + 1
	}
	at += column - 1
	var best *span
	for i := range r.spans {
		s := &r.spans[i]
		if s.from <= at && at < s.to && (best == nil || s.to-s.from < best.to-best.from) {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	return best.mutant
}

// switches is the file that each changed package gets.
const switches = `package %s

import "github.com/effectively-once/once/internal/mutantswitch"

var mutantSwitches = mutantswitch.Of(%q)

func mutantOn(n int) bool { return mutantSwitches.On(n) }

func mutantNil(n int, err error) error {
	if mutantSwitches.On(n) {
		return nil
	}
	return err
}

func mutantZero[T any](n int, v T) (zero T) {
	if mutantSwitches.On(n) {
		return zero
	}
	return v
}
`

// switchPackage is the package that knows which mutant is on, and records which are reached.
const switchPackage = `package mutantswitch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

var reached = os.Getenv("ONCE_MUTANTS_REACHED")

type Switches struct {
	pkg    string
	active int
	seen   sync.Map
}

func Of(pkg string) *Switches {
	s := &Switches{pkg: pkg, active: -1}
	if of, n, ok := strings.Cut(os.Getenv("ONCE_MUTANT"), " "); ok && of == pkg {
		s.active, _ = strconv.Atoi(n)
	}
	return s
}

func (s *Switches) On(n int) bool {
	if reached != "" {
		s.record(n)
	}
	return n == s.active
}

func (s *Switches) record(n int) {
	if _, known := s.seen.LoadOrStore(n, true); known {
		return
	}
	f, err := os.OpenFile(reached, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%s %d\n", s.pkg, n)
	_ = f.Close()
}
`
