package explore

import (
	"fmt"
	"strings"
)

// A Player executes the steps of a trace in a scenario.
type Player struct {
	w  *world
	at *state
}

// Play begins a scenario.
func Play(s *Scenario) (*Player, error) {
	w := newWorld(s)
	v, err := w.initial()
	if err != nil {
		return nil, fmt.Errorf("play %s: %w", s.Name, err)
	}
	return &Player{w, &state{view: v, left: s.Budget.left()}}, nil
}

// Step executes the step with a text, and returns its result: the answer of the call, and the
// worker's next call. It returns an error if the step is a violation, or if no step has that text.
func (p *Player) Step(text string) (string, error) {
	for _, st := range p.w.steps(p.at) {
		if st.text != text {
			continue
		}
		if st.wrong != nil {
			return "", st.wrong
		}
		was := p.at
		p.at = st.next
		return p.told(was), nil
	}
	return "", fmt.Errorf("no such step now; there are:\n%s", strings.Join(p.Steps(), "\n"))
}

// Steps returns the texts of the possible steps.
func (p *Player) Steps() []string {
	var out []string
	for _, st := range p.w.steps(p.at) {
		out = append(out, st.text)
	}
	return out
}

// told describes the runs that are new since a state.
func (p *Player) told(was *state) string {
	known := map[*run]bool{}
	for _, r := range was.runs {
		known[r] = true
	}
	var out []string
	for _, r := range p.at.runs {
		if known[r] {
			continue
		}
		if r.given != nil {
			out = append(out, r.given.text)
		}
		if r.call != nil {
			out = append(out, "next: "+r.call.text)
		} else {
			out = append(out, "next: it ends")
		}
	}
	if len(out) == 0 {
		return "done"
	}
	return strings.Join(out, "\n")
}

// Rest reports whether nothing is left to do. It returns an error if that state violates a rule.
func (p *Player) Rest() (bool, error) {
	if !p.at.idle() {
		return false, nil
	}
	if err := p.w.complete(p.at); err != nil {
		return true, err
	}
	return true, p.w.swept(p.at)
}
