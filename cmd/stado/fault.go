package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// faultVariable names the point of a write at which an agent kills itself: "held.json:rename=2" is the second time it gets there, "*=7" the
// seventh point of any name. Crash tests set it; it makes a kill at one chosen instruction repeatable, which a signal from outside
// cannot be.
const faultVariable = "STADO_KILL_AT"

func faultFromEnvironment(spec string) (func(point string) error, error) {
	if spec == "" {
		return nil, nil
	}
	point, count, ok := strings.Cut(spec, "=")
	n, err := strconv.Atoi(count)
	if !ok || point == "" || err != nil || n < 1 {
		return nil, fmt.Errorf("%s is %q (write POINT=N, such as held.json:rename=2)", faultVariable, spec)
	}
	var mu sync.Mutex
	return func(at string) error {
		mu.Lock()
		defer mu.Unlock()
		if at != point && point != "*" {
			return nil
		}
		if n--; n == 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}, nil
}
