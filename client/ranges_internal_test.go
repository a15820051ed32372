package client

import (
	"fmt"
	"testing"
)

func TestDeadLettersAreFoundInRanges(t *testing.T) {
	list := []NumberRange{{1, 2}, {5, 5}, {9, 12}}
	got := ""
	for n := range uint64(15) {
		if _, has := find(list, n); has {
			got += fmt.Sprint(" ", n)
		}
	}
	if got != " 1 2 5 9 10 11 12" {
		t.Error(got)
	}
	for more, want := range map[NumberRange]string{
		{1, 1}: "[{1 2} {5 5} {9 12}]", {3, 3}: "[{1 2} {3 3} {5 5} {9 12}]", {8, 8}: "[{1 2} {5 5} {8 8} {9 12}]", {13, 13}: "[{1 2} {5 5} {9 12} {13 13}]",
		{2, 5}: "[{1 5} {9 12}]", {4, 10}: "[{1 2} {4 12}]", {6, 14}: "[{1 2} {5 5} {6 14}]",
	} {
		if got := fmt.Sprint(with(list, more)); got != want {
			t.Errorf("with %v: %s", more, got)
		}
	}
	if got := fmt.Sprint(list); got != "[{1 2} {5 5} {9 12}]" {
		t.Errorf("the list is changed: %s", got)
	}
	for part, want := range map[[2]uint64]bool{
		{0, 0}: true, {0, 1}: true, {0, 2}: true, {0, 3}: false, {0, 5}: false, {1, 2}: true, {2, 3}: false, {4, 5}: true, {9, 11}: true, {9, 13}: false, {13, 14}: false,
	} {
		if covers(list, part[0], part[1]) != want {
			t.Errorf("after %d up to %d: %v", part[0], part[1], !want)
		}
	}
	if !covers([]NumberRange{{1, 2}, {3, 4}}, 0, 4) {
		t.Error("two ranges that meet")
	}
}

func TestAConsumerStartsWhereItsStoreOrAPersonSays(t *testing.T) {
	number := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		store  uint64
		from   *uint64
		cursor uint64
		dead   []NumberRange
		want   string
	}{
		{store: 7, cursor: 5, want: "7"},
		{store: 7, from: number(400), cursor: 5, want: "7"},
		{want: "0"},
		{cursor: 5, want: "the store has no number of this session, which has processed 5 entries: say after which number to continue"},
		{cursor: 5, from: number(0), want: "0"},
		{cursor: 5, from: number(5), want: "5"},
		{cursor: 5, from: number(6), want: "entries up to 5 were reported as processed: to continue after 6 would skip entries"},
		{from: number(1), want: "entries up to 0 were reported as processed: to continue after 1 would skip entries"},
		{cursor: 2, dead: []NumberRange{{1, 2}}, want: "0"},
		{cursor: 3, dead: []NumberRange{{1, 2}}, want: "the store has no number of this session, which has processed 3 entries: say after which number to continue"},
	} {
		n, err := (&Opened{Cursor: c.cursor, Dead: c.dead}).Start(c.store, c.from)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
