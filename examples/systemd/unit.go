// Package systemd holds the unit of an agent, so that what is installed by hand and what `stado host bootstrap` installs is one file.
package systemd

import _ "embed"

// Unit is stado.service as it lies beside this file.
//
//go:embed stado.service
var Unit string
