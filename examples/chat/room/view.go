package room

import (
	"slices"
)

// A View is a screen: lines below those that they answer. Two views show the lines that both have
// in the same order, whatever the order in which they got them, if each got no line before the one
// that it answers. It is for one goroutine.
type View struct {
	byID map[string]*node
	root node
	// compare sorts the lines that answer the same one. Tests of mistakes replace it.
	compare func(a, b *Heard) int
}

type node struct {
	Heard
	late    bool
	answers []*node
}

// NewView returns an empty view.
func NewView() *View {
	return &View{byID: map[string]*node{}, compare: func(a, b *Heard) int { return before(&a.Line, &b.Line) }}
}

// A Shown line is one row of the screen.
type Shown struct {
	Heard
	// Depth is how many lines are above it, up to one that answers none.
	Depth int
	// Late says that a line below it was there first: it was written before that one, and arrived
	// after it.
	Late bool
}

// Add adds a line at its place. It moves no other line. known is false if the line answers one that
// is not there; then it is shown as if it answered none.
func (v *View) Add(h Heard) (known bool) {
	parent := &v.root
	if known = len(h.Answers) == 0; !known {
		if parent, known = v.byID[h.Answers[0]], v.byID[h.Answers[0]] != nil; !known {
			parent = &v.root
		}
	}
	n := &node{Heard: h}
	i, _ := slices.BinarySearchFunc(parent.answers, n, func(a, b *node) int { return v.compare(&a.Heard, &b.Heard) })
	n.late = i < len(parent.answers)
	parent.answers = slices.Insert(parent.answers, i, n)
	v.byID[h.ID] = n
	return known
}

// Find returns a line.
func (v *View) Find(id string) (Heard, bool) {
	n := v.byID[id]
	if n == nil {
		return Heard{}, false
	}
	return n.Heard, true
}

// Lines returns all rows from the top.
func (v *View) Lines() []Shown {
	out := make([]Shown, 0, len(v.byID))
	var add func(n *node, depth int)
	add = func(n *node, depth int) {
		for _, below := range n.answers {
			out = append(out, Shown{Heard: below.Heard, Depth: depth, Late: below.late})
			add(below, depth+1)
		}
	}
	add(&v.root, 0)
	return out
}
