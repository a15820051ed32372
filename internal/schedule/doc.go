// Package schedule sends a message at each time of a cron expression.
//
// # Ticks
//
// A tick is one message. Its id is made of the schedule's name and of the nominal time in UTC, as
// in nightly/2026-11-27T03:00:00Z, so however many servers send it, the stream processes it once.
// Its principal is [Principal], which no client can have.
//
// # The record
//
// The record of a schedule is a group record in [record.SchedulesStream]. All times up to Through
// are decided: their ticks are on the queue, or were skipped. The steps of a tick are
//
//  1. one write begins it: the record gets the whole message, with the time of this write as its
//     time of acceptance;
//  2. the message is put on the queue, under token admission after its token is issued;
//  3. one write completes it: Through becomes the time of the tick.
//
// All writes have the version of the record as their condition. A worker that finds a tick that
// another one has begun sends the same message. So a tick is complete only after the queue holds
// it; and a copy of it has the same content, even if the configuration has changed, and the same
// time of acceptance, so that a copy which comes after its stream has forgotten the tick is refused
// as expired instead of being processed twice. Under token admission this needs one assumption: no
// server stands still for longer than the retention of the stream between its look at the clock and
// the write of the token.
//
// # Decisions
//
// A schedule without a record begins now, without a tick for earlier times. So does one whose
// expression or time zone differs from the record's. Of the times that were missed, the latest one
// is sent, and the others are counted and logged. If the clock is behind the record, nothing is
// sent until it has caught up.
package schedule
