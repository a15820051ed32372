package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// generate makes messages with every kind of body, half of them in a few groups and half without a
// group.
func generate(random *rand.Rand, n int) []sent {
	list := make([]sent, n)
	for i := range list {
		m := &list[i]
		m.id = fmt.Sprintf("m-%06d", i)
		if i%2 == 0 {
			m.group = fmt.Sprintf("g-%02d", random.IntN(97))
		}
		m.contentType, m.body = generateBody(random, i)
	}
	return list
}

// generateBody returns a body that differs from every other.
func generateBody(random *rand.Rand, i int) (contentType string, body []byte) {
	switch i % 10 {
	case 0:
		return "text/plain; charset=utf-8", fmt.Appendf(nil, "message %d says \"grüß Gott\" &\r\n\t<goodbye>\u2028", i)
	case 1:
		body = make([]byte, 16+random.IntN(200))
		for j := range body {
			body[j] = byte(random.Uint32())
		}
		body[0] = 0xff // invalid UTF-8
		return "application/octet-stream", body
	}
	padding := make([]byte, random.IntN(300))
	for j := range padding {
		padding[j] = 'a' + byte(random.IntN(26))
	}
	return "application/json", fmt.Appendf(nil, "{ \"n\": %d, \"big\": 12345678901234567890, \"padding\": %q }", i, padding)
}

// number makes n numbered messages of several sources, which take turns, in the order of their
// numbers.
func number(random *rand.Rand, n, sources int) []sent {
	list := make([]sent, n)
	for i := range list {
		m := &list[i]
		m.source, m.sequence = fmt.Sprintf("s-%02d", i%sources), uint64(i/sources+1)
		m.contentType, m.body = generateBody(random, i)
	}
	return list
}

// shuffle moves every message by at most a number of places.
func shuffle(random *rand.Rand, list []sent, places int) []sent {
	all := make([]placed, len(list))
	for i, m := range list {
		all[i] = placed{float64(i) + random.Float64()*float64(places), m}
	}
	return inPlaces(all)
}

// copies puts each message several times into one load: the first in the given order, a second one
// shortly after it, so that two are often in flight together, and the others anywhere later.
func copies(random *rand.Rand, list []sent, times int) []sent {
	all := make([]placed, 0, len(list)*times)
	for i, m := range list {
		at := float64(i)
		all = append(all, placed{at, m})
		for n := 1; n < times; n++ {
			behind := at + random.Float64()*16
			if n > 1 {
				behind = at + random.Float64()*float64(len(list)-i)
			}
			all = append(all, placed{behind, m})
		}
	}
	return inPlaces(all)
}

// placed is a message and its position in a load.
type placed struct {
	at float64
	m  sent
}

func inPlaces(all []placed) []sent {
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]sent, len(all))
	for i := range all {
		out[i] = all[i].m
	}
	return out
}
