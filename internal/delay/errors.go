package delay

import "errors"

// ErrTooLarge says that a store can't hold an item of that size. A retry can't succeed.
var ErrTooLarge = errors.New("the message is too large to be delayed for so long")
