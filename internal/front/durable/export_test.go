package durable

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Uses is uses for tests.
type Uses struct{ *uses }

func NewUses() Uses { return Uses{newUses()} }

func (u Uses) Note(key record.GroupKey, now time.Time, ttl time.Duration) { u.note(key, now, ttl) }

func (u Uses) Last(key record.GroupKey) time.Time { return u.last(key) }

func (u Uses) Len() int { return len(u.reads) }
