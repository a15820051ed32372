package queuetest

import (
	"cmp"
	"slices"
)

// A spot names a message: the number that it has in its line.
type spot struct {
	line   string
	number int32
}

// A sending is the call that sends a message.
type sending struct {
	spot
	client       int
	began, ended int64
	lost         bool
}

// An arrival is an answer that has a message.
type arrival struct {
	spot
	ended int64
}

// addSends tells the log of the sends. Each has its message's place in its line, because without it the check has to try all orders of those that went on at the same time. Places are
// counted as messages were first received: of two answers about a line, the one that ended first was given first, as what it has is first in the line until somebody uses its receipts.
// A send without an answer whose message never came had no effect, or has it after all else.
func (r *round) addSends() {
	slices.SortStableFunc(r.arrivals, func(a, b arrival) int { return cmp.Compare(a.ended, b.ended) })
	length, places := map[string]int32{}, map[spot]int32{}
	for _, a := range r.arrivals {
		if places[a.spot] == 0 {
			length[a.line]++
			places[a.spot] = length[a.line]
		}
	}
	for _, s := range r.sends {
		place := places[s.spot]
		if s.lost && place == 0 {
			continue
		}
		r.log.Add(r.object(s.line), s.client, call{do: "send", number: s.number, place: place}, answer{lost: s.lost}, s.began, s.ended)
	}
}
