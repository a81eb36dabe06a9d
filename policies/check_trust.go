package policies

import (
	"maps"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// trust refuses one key under two names: which of their scopes counts would depend on who looks.
func (k *checker) trust() {
	if k.registry.Trust == nil {
		return
	}
	at := func(name fleet.SignerName) string { return schema.FieldPath("trust", "signers", string(name), "key") }
	owner := map[string]fleet.SignerName{}
	for _, name := range slices.Sorted(maps.Keys(k.registry.Trust.Signers)) {
		words := strings.Fields(k.registry.Trust.Signers[name].Key)
		key := strings.Join(words[:min(2, len(words))], " ") // without the comment
		if first, taken := owner[key]; taken {
			k.refuse(RuleSignerKey, at(name), sayOneKey(name, first, seeAlso(k.at(at(first)))), hintOneKey)
			continue
		}
		owner[key] = name
	}
}
