// Package rapidseed is imported by tests for its effect: the number in BRAISE_TEST_SEED is the seed of
// pgregory.net/rapid, too. Without it rapid chooses another one each time.
package rapidseed

import (
	"flag"
	"fmt"

	_ "pgregory.net/rapid" // so that its flags are there

	"github.com/braise-run/braise/internal/seedtest"
)

func init() {
	if seedtest.Seed == 0 {
		return
	}
	if err := flag.Set("rapid.seed", fmt.Sprint(seedtest.Seed)); err != nil {
		panic(err)
	}
}
