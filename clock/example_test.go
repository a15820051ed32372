package clock_test

import (
	"fmt"
	"time"

	"github.com/effectively-once/once/clock"
)

func ExampleLamport() {
	var a, b clock.Lamport
	a, _ = a.Tick()     // a sends
	b, _ = b.Receive(a) // b receives
	fmt.Println(a, b)
	// Output: 1 2
}

func ExampleVector() {
	var question, one, two clock.Vector
	question, _ = question.Tick("ann")
	one, _ = question.Tick("bob") // bob answers the question
	two, _ = question.Tick("cay") // cay answers it, too, without knowing bob's answer
	fmt.Println(question.Compare(one), one.Compare(two))
	both, _ := one.Merge(two)
	fmt.Println(both)
	// Output:
	// before concurrent
	// ann=1,bob=1,cay=1
}

func ExampleHybrid() {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var here clock.Hybrid
	here, _ = here.Tick(now)
	there := clock.HybridAt(now.Add(3 * time.Second)) // from a process with a faster clock
	here, _ = here.Receive(now, there, time.Minute)
	fmt.Println(here)
	_, err := here.Receive(now, clock.HybridAt(now.Add(time.Hour)), time.Minute)
	fmt.Println(err)
	// Output:
	// 2026-01-31T12:00:03.000Z-0001
	// clock 2026-01-31T13:00:00.000Z-0000 is more than 1m0s ahead of the local time 2026-01-31T12:00:00.000Z
}
