// Package console serves pages at /console, on which people see the messages of an embedded system,
// the reasons why some wait, and repair them. The pages are rendered here from the answers that the
// commands print. Each page names the command that does the same.
//
//	console.go  the routes, and who may call them
//	render.go   pages
//	feed.go     their renewal by server-sent events
//	chart.go    rates and latencies
//	view.go     streams, groups, messages, totals
//	letters.go  dead letters
//	log.go      logs and sessions
//	write.go    sending, redriving, dropping, skipping
//	command.go  the commands that the pages name
//
// # Limits
//
// It has no authentication: anyone who can reach the listener can read every page. Requests under a
// foreign host name are refused, so that no web page of another site can read the console of a
// server on the same machine. Writing needs [Options.Write], a request of the same origin, and a
// token that only the pages of this process have.
package console
