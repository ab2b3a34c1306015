"""What developers of interlock need beside the product: generated pages, a scripted model, pinned real agents."""
