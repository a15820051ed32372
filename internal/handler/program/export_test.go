package program

import "time"

// SetTimeout sets the timeout of the next calls.
func SetTimeout(p *Program, d time.Duration) { p.options.Timeout = d }
