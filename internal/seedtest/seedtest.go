// Package seedtest is for tests that leave something to chance. The environment variable BRAISE_TEST_SEED, a number,
// decides it, so that a failure can be repeated. The gate derives it from the files of the commit: two runs on one
// commit do the same, and other commits try other things.
//
// In packages whose tests import it, the variable is the seed of pgregory.net/rapid, too; without it rapid chooses
// another one each time.
package seedtest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // so that its flags are there
)

const variable = "BRAISE_TEST_SEED"

// seed is 0 where the variable is not set.
var seed uint64

func init() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var err error
	if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
		panic(fmt.Sprintf("%s: %v", variable, err))
	}
	if err := flag.Set("rapid.seed", text); err != nil {
		panic(err)
	}
}

// Part returns which of n parts of its work a test does that has no time for all of them: a number from 0 to n-1. It
// logs how to do the same again.
func Part(t testing.TB, n int) int {
	t.Helper()
	part := int(seed % uint64(n))
	t.Logf("part %d of %d, by %s=%d", part, n, variable, seed)
	return part
}
