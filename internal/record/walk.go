package record

import (
	"context"
	"errors"
	"fmt"
)

// walkPage is how many records a walk reads in one call.
const walkPage = 500

// EachGroup calls do with each group of a store, or of one stream if stream is not empty, until do
// returns an error. It leaves out corrupt records and calls passed with their errors.
func EachGroup(ctx context.Context, l Lister, stream string, passed func(error), do func(*Group) error) error {
	return walk(passed, func(after GroupKey) ([]Group, error) { return l.Groups(ctx, stream, after, walkPage) }, func(g *Group) GroupKey { return g.Key }, do)
}

// EachToken calls do with each token of a store, as EachGroup does with groups.
func EachToken(ctx context.Context, l Lister, passed func(error), do func(*Token) error) error {
	return walk(passed, func(after TokenKey) ([]Token, error) { return l.Tokens(ctx, after, walkPage) }, func(t *Token) TokenKey { return t.Key }, do)
}

func walk[K, R any](passed func(error), list func(after K) ([]R, error), key func(*R) K, do func(*R) error) error {
	var after K
	for {
		page, err := list(after)
		switch {
		case errors.Is(err, ErrCorrupt):
			passed(err)
		case err != nil:
			return fmt.Errorf("walk through the store: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		after = key(&page[len(page)-1])
	}
}
