package queuetest

import (
	"cmp"
	"slices"
)

// A spot identifies a message by its line and its number there.
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

// An arrival is a reply that contains a message.
type arrival struct {
	spot
	ended int64
}

// addSends adds the sends to the log. Each has its message's place in its line, because without it
// the check has to try all orders of concurrent sends.
//
// Places are counted in the order in which messages were first received: of two replies with
// messages of a line, the one that ended first was sent first, because its messages stay first in
// the line until their receipts are used. If a send without a reply has a message that was never
// received, it either had no effect or took effect after everything else.
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
