"""What all commands share that change something: their options, plans shown and saved, what came of them."""
