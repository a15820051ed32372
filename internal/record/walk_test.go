package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

var errAway = errors.New("away")

// A shelf lists its tokens in pages of two, and returns err with each page.
type shelf struct {
	record.Lister
	tokens []record.Token
	err    error
}

func (s *shelf) Tokens(_ context.Context, after record.TokenKey, _ int) ([]record.Token, error) {
	i := slices.IndexFunc(s.tokens, func(t record.Token) bool { return t.Key == after }) + 1
	return s.tokens[i:min(i+2, len(s.tokens))], s.err
}

func TestAWalkVisitsReadableRecordsAndReportsCorruptOnes(t *testing.T) {
	s := &shelf{}
	for i := range 5 {
		s.tokens = append(s.tokens, record.Token{Key: record.NewTokenKey("", "s", fmt.Sprint(i)), Group: fmt.Sprint(i)})
	}
	for name, c := range map[string]struct {
		page, do error
		shown    int
		corrupt  bool
		want     error
	}{
		"all is well":           {nil, nil, 5, false, nil},
		"a record is corrupt":   {record.ErrCorrupt, nil, 5, true, nil},
		"the store is away":     {errAway, nil, 0, false, errAway},
		"the caller has enough": {nil, errAway, 1, false, errAway},
	} {
		s.err = c.page
		shown, corrupt := 0, false
		err := record.EachToken(t.Context(), s, func(error) { corrupt = true }, func(*record.Token) error {
			shown++
			return c.do
		})
		if shown != c.shown || corrupt != c.corrupt || !errors.Is(err, c.want) {
			t.Errorf("%s: %d shown, corrupt %v, %v", name, shown, corrupt, err)
		}
	}
}

// A plain store has no TokenStates.
type plain struct{ record.Store }

func (plain) Load(context.Context, []record.GroupKey, []record.TokenKey) ([]record.Group, []record.Token, error) {
	return nil, []record.Token{{Group: "loaded"}}, nil
}

// A thrifty store has TokenStates.
type thrifty struct{ plain }

func (thrifty) TokenStates(context.Context, []record.TokenKey) ([]record.Token, error) {
	return []record.Token{{Group: "read"}}, nil
}

func TestTokenStatesAreReadWithoutRepliesIfTheStoreSupportsIt(t *testing.T) {
	for want, s := range map[string]record.Store{"loaded": plain{}, "read": thrifty{}} {
		if got, err := record.TokenStates(t.Context(), s, nil); err != nil || got[0].Group != want {
			t.Errorf("they are %s, not %s: %v", got[0].Group, want, err)
		}
	}
}

func TestAReplyIsAsLargeAsItsBodyAndHeaders(t *testing.T) {
	for want, r := range map[int]*record.Reply{0: nil, 4: {Body: []byte("body")}, 13: {Body: []byte("body"), Header: map[string][]string{"Name": {"a"}, "X": {"b", "c"}}}} {
		if got := r.Size(); got != want {
			t.Errorf("%+v has %d bytes, want %d", r, got, want)
		}
	}
}
