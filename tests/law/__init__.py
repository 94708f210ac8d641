"""The laws, held by properties: any order, any damage, any cut. Each check comes with what it must catch."""
